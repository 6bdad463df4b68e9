"""Other forms of the same round, which must give the same tokens, lengths and acceptances.

The paper checks that cutting the verification at the router boundary changes nothing (appendix
D.3, first step) by running Layer 0 whole before the length is chosen. The second form here spoils
all that Stage 0 and earlier rounds have left of inputs past w: Stage 1 must not read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, get_args

import torch
from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.engine import Engine
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import PassOutput, Stage0, Step, Target
from hybridspec.policy.length import Choice
from hybridspec.runtime.state import TargetSlot, W
from hybridspec.systems import System

Form = Literal["split", "unsplit", "overwritten"]
FORMS: tuple[Form, ...] = get_args(Form)


class Unsplit(Target):
    """Stage 0 runs its inputs through all of layer 0, and Stage 1 goes on from the first w."""

    def stage0(self, ids: Tensor, slot: TargetSlot, verifier: Verifier) -> Stage0:
        """As `Target.stage0`, and layer 0's experts of all u inputs besides."""
        kept = super().stage0(ids, slot, verifier)
        self._after_first = self.layers[0].experts(kept)
        return kept

    def stage1(self, stage0: Stage0, w: int, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """As `Target.stage1`, without layer 0's experts, which have run."""
        step, after_first = Step(slot, self.rope, verifier), self._after_first[:w]
        x, taps = self._run(after_first, 1, step)
        return self._output(x, {0: after_first} | taps, step)


class Overwritten(Target):
    """Before Stage 1, every value of inputs past w is overwritten."""

    def stage1(self, stage0: Stage0, w: int, slot: TargetSlot, verifier: Verifier) -> PassOutput:
        """As `Target.stage1` on what `overwrite` has left."""
        overwrite(stage0, w, slot, verifier)
        return super().stage1(stage0, w, slot, verifier)


def overwrite(stage0: Stage0, w: int, slot: TargetSlot, verifier: Verifier) -> None:
    """Not-a-number where a verification keeps something of inputs past w; expert 0 as their route.

    Args:
        stage0: of u >= w inputs.
        w: inputs that Stage 1 will take.
        slot: the sequence, P tokens committed.
        verifier: whose buffers it writes.
    """
    stage0.experts[w:] = 0
    layers = [slot.layer(i, verifier) for i in range(len(slot.checkpoint))]
    by_input = [t for b in layers for t in (b.z, b.k, b.g, b.states) if t is not None]
    for rows in (stage0.residual, stage0.moe_input, stage0.weights, *by_input):
        rows[w:] = torch.nan
    slot.conv[:, slot.conv.shape[1] - W + w :] = torch.nan
    ahead = slice(slot.length + w, slot.length + W)
    slot.keys[:, :, ahead] = torch.nan
    slot.values[:, :, ahead] = torch.nan


@contextmanager
def running(engine: Engine, form: Form) -> Iterator[None]:
    """Within it the engine's target runs in another form, on the same weights and memory."""
    own = engine.target
    kinds = {"unsplit": Unsplit, "overwritten": Overwritten}
    if form in kinds:
        engine.target = _seen_as(own, kinds[form])
    try:
        yield
    finally:
        engine.target = own


def _seen_as(target: Target, kind: type[Target]) -> Target:
    """The same weights under another class."""
    other = kind.__new__(kind)
    vars(other).update(vars(target))
    return other


@dataclass
class Sweep:
    """A policy for this check: Stage 0 runs the whole block, Stage 1 every part of it in turn.

    longest: the drafter's block size.
    """

    longest: int
    scored: bool = False
    lengths: list[int] = field(init=False, default_factory=list)

    @property
    def lookahead(self) -> int:
        """All inputs that there are."""
        return self.longest - 1

    def drafts(self) -> int:
        """The whole block."""
        return self.longest - 1

    def select(self, proposal: Proposal | None) -> Choice:
        """The shortest; `correct` chooses."""
        return Choice(1)

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """1 to `longest`, each once before any comes again, long after short."""
        if not self.lengths:
            half = (self.longest + 1) // 2
            shorts, longs = range(1, half + 1), range(self.longest, half, -1)
            self.lengths = [w for i, short in enumerate(shorts) for w in (short, *longs[i : i + 1])]
        return self.lengths.pop(0)


def sweep(block_size: int, verifier: Verifier) -> System:
    """A fresh system of the check, which begins with the shortest length."""
    return System(f"sweep:{verifier}", Sweep(block_size), verifier)
