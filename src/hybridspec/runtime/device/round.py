"""One round of Algorithm 1 as launches: every length stays where the next kernel reads it.

`runtime/round.py` is the law. Nothing here allocates, waits, or asks the host for a number.

**Turns.** Kernels of a pass that are launched early read their length before the kernel ahead of
them has ended (`kernels/early.py`); whatever it writes last may then be missed, and what an earlier
one wrote is there. So between a kernel that writes a length and one that reads it early, another
must stand:

    select  writes u, w      the embedding stands before the first product
    correct writes w         `settle` stands before layer 0's experts
    accept  writes m         `emit` stands before the commit
    emit    writes P, ...    the commit, which reads none of them, stands before the drafter
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from hybridspec.kernels.accept.accept import Round as Verdict
from hybridspec.kernels.accept.accept import accept
from hybridspec.kernels.forward.gdn import Replay
from hybridspec.kernels.head.head import Answer
from hybridspec.kernels.length.length import Lengths, correct, select
from hybridspec.kernels.length.rule import Rule
from hybridspec.kernels.sampling.sample import sample
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.device.passes import Passes
from hybridspec.runtime.device.ring import Ring
from hybridspec.runtime.device.signals import emit, mark, settle
from hybridspec.runtime.device.snapshot import Snapshot

# Takes the anchor [1] int64, its position [] int32 and the answer, rows 1.. of which it overwrites.
Replace = Callable[[Tensor, Tensor, Answer], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A system, as far as a round depends on it.

    rule: how its lengths are chosen. scored: whether that reads confidence and entropy. split:
    whether the target stops at layer 0's router; a rule with a correction must.
    """

    rule: Rule
    scored: bool
    split: bool


class Round:
    """The launches of a round. `draft`, `stage0`, `correct`, `stage1` and `end` are its parts, in
    this order, and `whole` is all of them."""

    def __init__(
        self, plan: Plan, passes: Passes, memory: Memory, ring: Ring, *, early: bool,
        replace: Replace | None = None,
    ) -> None:  # fmt: skip
        """A round of a system.

        Args:
            early: launch the kernels between the passes early; the passes have their own setting.
            replace: launches that put another proposal into the drafter's answer, for benchmarks
                with scripted drafts.
        """
        self.plan, self.passes, self.memory, self.ring = plan, passes, memory, ring
        self.target, self.drafter, self.anchor = passes.target, passes.drafter, passes.anchor
        self.early, self._replace = early, replace
        n = memory.numbers
        self._lengths = Lengths(n.nominal, n.looked, n.verified, memory.prefix)
        self._verdict = Verdict(n.accepted, n.kept, n.done, n.room, self.anchor, memory.emitted)

    def whole(self) -> None:
        """A round with one body for every length."""
        self.draft()
        self.stage0()
        self.correct()
        self.stage1()
        self.end()

    def draft(self) -> None:
        """Lines 1 to 4: the proposal, w0 and u."""
        answer, numbers = self.memory.answer, self.memory.numbers
        if self.drafter is not None:
            self.drafter.propose(scored=self.plan.scored)
        if self._replace is not None:
            self._replace(self.anchor, numbers.position, answer)
        select(
            self.plan.rule, answer.confidence, answer.entropy, numbers.room, self._lengths,
            early=self.early,
        )  # fmt: skip

    def stage0(self) -> None:
        """Line 5: layer 0 of u inputs through its router. Without a cut this is all in `stage1`."""
        if self.plan.split:
            self.target.stage0()

    def correct(self) -> None:
        """Lines 6 to 11: w. `settle`: layer 0's experts, next, may read w early."""
        if self.plan.rule.lookahead:
            routed = self.target.buffers.routed
            correct(self.plan.rule, routed.ids, self._lengths, early=self.early)
            settle(self.memory.numbers, early=self.early)

    def stage1(self) -> None:
        """Line 12: the rest of the target on w inputs."""
        if self.plan.split:
            self.target.stage1()
        else:
            self.target.unsplit()

    def end(self) -> None:
        """Lines 13 to the last: what is emitted and kept, and the state of exactly that."""
        m, early = self.memory, self.early
        logits, w = self.target.buffers.logits, m.numbers.verified
        sample(logits, w, m.request, m.tokens, m.bad, m.scratch, early=early)
        mark(m.numbers, m.bad, m.tokens, early=early)
        accept(m.answer.tokens, m.tokens, w, m.stops, self._verdict, early=early)
        emit(
            m.numbers, m.emitted, m.request.position, self.ring, self.plan.rule.drafts,
            self.passes.block, early=early,
        )  # fmt: skip
        self.keep()

    def keep(self) -> None:
        """Commit m inputs and give their features to the drafter.

        The commit shares no memory with what the drafter does, its next proposal included: here a
        second stream could let them overlap.
        """
        self.target.commit()
        if self.drafter is not None:
            self.drafter.extend()

    def rows(self, room: int) -> int:
        """Of the block that the drafter runs with so much room, as `emit` has it."""
        return self.passes.block or 1 + max(0, min(self.plan.rule.drafts, room - 1))

    def snapshot(self) -> Snapshot:
        """Memory for a copy of the state."""
        own, beside = self.target.recurrence, []
        if isinstance(own, Replay):
            beside = [*own.ring, own.g, own.pending]
        return Snapshot(self.target.slot, self.drafter.slot if self.drafter else None, beside)
