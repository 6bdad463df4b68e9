"""A target whose verifications run as kernels: the model's interface over `kernels/forward`.

Prefill stays with the model, and so does what the kernels do not do; state lies in one memory for
both. A pass is recorded once a slot and verifier as a CUDA graph, for its lengths are data on the
device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.kernels.early import has_early
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.kernels.support import once
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import PassOutput, Stage0, Target
from hybridspec.runtime.graph import Recorded
from hybridspec.runtime.state import TargetSlot


class _Passes(NamedTuple):
    """The recordings of one slot and verifier."""

    run: TargetPass
    stage0: Callable[[], None]
    stage1: Callable[[], None]
    unsplit: Callable[[], None]
    commit: Callable[[], None]


class LaunchedTarget(Target):
    """The same model as the one it is made of: weights, norms and tables are shared."""

    def __init__(self, target: Target, *, early: bool | None = None) -> None:
        """target: loaded and prepared. early: as in `kernels/early.py`; by default where the GPU
        has it."""
        vars(self).update(vars(target))
        self.weights = TargetWeights.of(target)
        self.early = has_early(self.device) if early is None else early
        self._passes: dict[tuple[Verifier, int, int, tuple[int, ...]], _Passes] = {}

    def stage0(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> Stage0:
        """As the model's."""
        if not self._serves(slot):
            return super().stage0(ids, slot, verifier)
        passes = self._begin(ids, slot, verifier)
        passes.stage0()
        b, u = passes.run.buffers, len(ids)
        return Stage0(b.x[:u], b.normed.scaled[:u], b.routed.ids[:u].long(), b.routed.shares[:u])

    def stage1(self, stage0: Stage0, w: int, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """As the model's; it goes on from the last `stage0` of this slot."""
        if not self._serves(slot):
            return super().stage1(stage0, w, slot, verifier)
        passes = self._of(slot, verifier)
        passes.run.buffers.lengths.verified.fill_(w)
        passes.stage1()
        return self._copied(passes, w)

    def verify_unsplit(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """As the model's."""
        if not self._serves(slot):
            return super().verify_unsplit(ids, slot, verifier)
        passes = self._begin(ids, slot, verifier)
        passes.unsplit()
        return self._copied(passes, len(ids))

    def commit(self, slot: TargetSlot, m: int, verifier: Verifier) -> None:
        """As the model's."""
        if not self._serves(slot):
            super().commit(slot, m, verifier)
            slot.fold()  # the kernels' ring of `replay` has other decays than the model's
            return
        passes = self._of(slot, verifier)
        passes.run.buffers.lengths.kept.fill_(m)
        passes.commit()
        passes.run.recurrence.committed(slot, m)
        slot.length += m

    def recorded(self, step: Callable[[], None]) -> Callable[[], None]:
        """A step of a pass as it will be called: on a GPU a recording."""
        return Recorded(step) if self.device.type == "cuda" else step

    def _serves(self, slot: TargetSlot) -> bool:
        """Whether kernels run this pass; where not, the reason is said once."""
        if slot.routes is not None:
            once("Passes whose experts are recorded run in torch, not in our kernels.")
        return slot.routes is None

    def _begin(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> _Passes:
        """Inputs and lengths of a pass over ids [u]."""
        passes, u = self._of(slot, verifier), len(ids)
        passes.run.recurrence.begin(slot)
        b = passes.run.buffers
        b.tokens[:u] = ids
        lengths = torch.tensor([slot.length, u, u, 0], dtype=torch.int32)
        b.lengths.all.copy_(lengths)
        return passes

    def _copied(self, passes: _Passes, w: int) -> PassOutput:
        """Copies: the buffers are the next pass's too."""
        b = passes.run.buffers
        features = b.features[:w].clone() if passes.run.taps else None
        return PassOutput(b.logits[:w].clone(), features)

    def _of(self, slot: TargetSlot, verifier: Verifier) -> _Passes:
        """The recordings for the memory of a slot; new ones where tables have grown."""
        key = (verifier, slot.checkpoint.data_ptr(), self.rope.cos.data_ptr(), slot.tap_layers)
        if key not in self._passes:
            self._passes[key] = self._record(slot, verifier)
        return self._passes[key]

    def _record(self, slot: TargetSlot, verifier: Verifier) -> _Passes:
        taps, kind = len(slot.tap_layers), self.device.type
        with torch.inference_mode(False):
            buffers = Buffers.empty(
                self.config,
                taps,
                blocks(self.config, kind, self.dtype),
                slot.keys.shape[2],
                self.device,
                self.dtype,
            )
            run = TargetPass(self, self.weights, slot, buffers, early=self.early, verifier=verifier)
        steps = (run.stage0, run.stage1, run.unsplit, run.commit)
        return _Passes(run, *map(self.recorded, steps))
