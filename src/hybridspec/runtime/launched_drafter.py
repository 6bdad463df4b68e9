"""A drafter whose proposals run as kernels: the model's interface over `kernels/forward`.

State lies in one memory for both, so that a prompt's features, too many for a pass, stay with the
model. A pass is recorded once a slot as a CUDA graph, for its lengths are data on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.kernels.early import has_early
from hybridspec.kernels.forward.drafter import DrafterPass
from hybridspec.kernels.forward.drafter_buffers import DrafterBuffers
from hybridspec.kernels.forward.drafter_weights import DrafterWeights
from hybridspec.kernels.linear.config import ROWS
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.drafter_state import DrafterSlot
from hybridspec.runtime.graph import Recorded

FEW = 8 * ROWS  # tokens that are added by passes: more than wait for a drafter in any round


class _Passes(NamedTuple):
    """The recordings of one slot."""

    buffers: DrafterBuffers
    extend: Callable[[], None]
    propose: Callable[[], None]
    score: Callable[[], None]


class LaunchedDrafter(Drafter):
    """The same model as the one it is made of: weights, norms and tables are shared."""

    def __init__(self, drafter: Drafter, target: Target, *, early: bool | None = None) -> None:
        """drafter: loaded and prepared; target: the one that it proposes for. early: as in
        `kernels/early.py`; by default where the GPU has it."""
        vars(self).update(vars(drafter))
        self.weights = DrafterWeights.of(drafter, target.embedding, target.head)
        self.early = has_early(self.device) if early is None else early
        self._target = target
        self._passes: dict[tuple[int, ...], _Passes] = {}

    def extend(self, features: Tensor, slot: DrafterSlot) -> None:
        """As the model's."""
        if len(features) > FEW:
            super().extend(features, slot)
            return
        passes = self._of(slot)
        for rows in features.split(ROWS):
            m = len(rows)
            passes.buffers.features[:m] = rows
            _set(passes.buffers, (slot.length, m, 0, 0))
            passes.extend()
            slot.length += m

    def propose(
        self, target: Target, anchor: int, slot: DrafterSlot, drafts: int, *, scored: bool = False
    ) -> Proposal:
        """As the model's."""
        assert target.head is self._target.head, "a drafter proposes for the target it is made for"
        passes = self._of(slot)
        size = 1 + drafts if self.causal else self.config.block_size
        passes.buffers.tokens[:1].fill_(anchor)
        _set(passes.buffers, (0, 0, slot.length, size))
        (passes.score if scored else passes.propose)()
        tokens, _, *scores = (t[1 : drafts + 1].clone() for t in passes.buffers.answer)
        return Proposal(tokens, *scores) if scored else Proposal(tokens)

    def recorded(self, step: Callable[[], None]) -> Callable[[], None]:
        """A step of a pass as it will be called: on a GPU a recording."""
        return Recorded(step) if self.device.type == "cuda" else step

    def _of(self, slot: DrafterSlot) -> _Passes:
        """The recordings for the memory of a slot; new ones where tables have grown."""
        key = (slot.full.data_ptr(), slot.ring.data_ptr(), self.rope.cos.data_ptr())
        if key not in self._passes:
            self._passes[key] = self._record(slot)
        return self._passes[key]

    def _record(self, slot: DrafterSlot) -> _Passes:
        with torch.inference_mode(False):
            buffers = DrafterBuffers.empty(self.config, slot, len(self.weights.head))
        run = DrafterPass(self, self.weights, slot, buffers, early=self.early)
        propose, score = (partial(run.propose, scored=scored) for scored in (False, True))
        return _Passes(
            buffers, self.recorded(run.extend), self.recorded(propose), self.recorded(score)
        )


def _set(buffers: DrafterBuffers, lengths: tuple[int, int, int, int]) -> None:
    buffers.lengths.all.copy_(torch.tensor(lengths, dtype=torch.int32))
