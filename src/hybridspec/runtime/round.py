"""One round of speculative decoding (paper Algorithm 1), eager: lengths are Python numbers.

draft -> select -> Stage 0 -> correct -> Stage 1 -> accept -> stop rule -> commit.
Plain decoding is this same round at w = 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from hybridspec.core import Proposal, RoundStats, SamplingParams, TokenLogprobs, Verdict
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import PassOutput, Target
from hybridspec.runtime.explain import explain
from hybridspec.runtime.sampling import accept, target_tokens
from hybridspec.runtime.state import DrafterSlot, TargetSlot
from hybridspec.systems import System
from hybridspec.text.stop import Emission, OutputStream

Observe = Callable[[int, int, float], None]
HELD = 64  # tokens whose features may wait for the drafter: a few MB at most


@dataclass(slots=True)
class Sequence:
    """One request under way: P committed tokens in the slots, and the anchor that follows them.

    `unseen`: features of committed tokens that the drafter has not been given yet.
    """

    slot: TargetSlot
    drafter_slot: DrafterSlot | None
    params: SamplingParams
    seed: int
    anchor: int = -1
    explain: bool = False
    keep_drafts: bool = False
    unseen: list[torch.Tensor] = field(default_factory=list)


class Rounds:
    """Runs a target and its drafter, if any, by one system.

    Attributes:
        logprobs: of the tokens last emitted; empty where nobody asked.
    """

    logprobs: tuple[TokenLogprobs, ...] = ()

    def __init__(self, target: Target, drafter: Drafter | None, system: System) -> None:
        self.target, self.system = target, system
        self.drafter = drafter if system.drafts else None
        self._observe: Observe | None = getattr(system.policy, "observe", None)

    def begin(self) -> None:
        """A new answer: a policy that learns is told."""
        begin = getattr(self.system.policy, "begin", None)
        if begin is not None:
            begin()

    def halt(self) -> None:
        """Nothing of an answer runs after it. What the host leads has ended when it returns."""

    def prefill(self, sequence: Sequence, ids: torch.Tensor) -> PassOutput:
        """Run prompt tokens [T] into the slots; logits of the last one."""
        out = self.target.prefill(ids, sequence.slot)
        self._keep(sequence, out, ids.shape[0])
        return out

    def first_token(self, sequence: Sequence, out: PassOutput) -> int:
        """The token after the prompt: the first anchor."""
        rows = self._rows(out, None)
        sequence.anchor = int(self._target_tokens(sequence, rows, sequence.slot.length)[0])
        return sequence.anchor

    def run(
        self, sequence: Sequence, output: OutputStream, remaining: int
    ) -> tuple[Emission, tuple[int, ...], RoundStats]:
        """One round that emits at most `remaining` >= 1 tokens and commits exactly what is kept.

        Returns what the stop rule let out, the kept tokens, and the round's figures.
        """
        began = time.perf_counter()
        policy, verifier, slot = self.system.policy, self.system.verifier, sequence.slot
        proposal = self._propose(sequence, min(policy.drafts(), remaining - 1))
        choice = policy.select(proposal)
        drafted = 0 if proposal is None else len(proposal.tokens)
        u = min(choice.w0 + policy.lookahead, remaining, 1 + drafted)

        stage0 = self.target.stage0(self._inputs(sequence, proposal, u), slot, verifier)
        w = min(policy.correct(choice, stage0.experts), u)
        out = self.target.stage1(stage0, w, slot, verifier)

        verdict = self._verdict(sequence, proposal, out, w)
        emission = output.push(verdict.emitted)
        m = emission.kept  # the anchor and the kept drafts before the last kept token
        self.target.commit(slot, m, verifier)
        self._keep(sequence, out, m)
        sequence.anchor = verdict.emitted[m - 1]
        kept = proposal.tokens if proposal is not None and sequence.keep_drafts else None
        stats = RoundStats(w, verdict.accepted, m, choice.w0, drafts=kept)
        if sequence.explain:
            why = explain(policy, proposal, choice, stage0.experts)
            stats = replace(stats, explanation=why)
        if self._observe is not None:
            self._observe(w, verdict.accepted, time.perf_counter() - began)
        return emission, verdict.emitted[:m], stats

    def _propose(self, sequence: Sequence, drafts: int) -> Proposal | None:
        if self.drafter is None or sequence.drafter_slot is None or drafts < 1:
            return None
        self.catch_up(sequence)
        scored = self.system.policy.scored
        return self.drafter.propose(
            self.target, sequence.anchor, sequence.drafter_slot, drafts, scored=scored
        )

    def _inputs(self, sequence: Sequence, proposal: Proposal | None, u: int) -> torch.Tensor:
        """[u] int64: the anchor and the first u - 1 drafts."""
        anchor = torch.tensor([sequence.anchor], device=self.target.device)
        return anchor if proposal is None else torch.cat((anchor, proposal.tokens[: u - 1]))

    def _verdict(
        self, sequence: Sequence, proposal: Proposal | None, out: PassOutput, w: int
    ) -> Verdict:
        """A leading drafts equal the target's tokens; those and the next one are emitted."""
        drafts = None if proposal is None else proposal.tokens[: w - 1]
        y = self._target_tokens(sequence, self._rows(out, drafts), sequence.slot.length + 1)
        accepted = 0 if drafts is None else int(accept(drafts, y))
        return Verdict(accepted, tuple(y[: accepted + 1].tolist()))

    def _rows(self, out: PassOutput, drafts: torch.Tensor | None) -> torch.Tensor:
        """[w, V] logits that tokens are taken from; row j follows drafts [w - 1] up to the j-th."""
        return out.logits

    def _target_tokens(self, sequence: Sequence, rows: torch.Tensor, first: int) -> torch.Tensor:
        """The target's own tokens at positions first.. of the sequence."""
        positions = torch.arange(first, first + len(rows), device=self.target.device)
        return target_tokens(rows, positions, sequence.params, sequence.seed)

    def _keep(self, sequence: Sequence, out: PassOutput, m: int) -> None:
        """Keep the features of m committed tokens until the drafter needs them.

        While a policy rests, that is once in HELD rounds instead of every round.
        """
        if self.drafter is not None and sequence.drafter_slot is not None:
            assert out.features is not None
            sequence.unseen.append(out.features[:m])
            if sum(map(len, sequence.unseen)) >= HELD:
                self.catch_up(sequence)

    def catch_up(self, sequence: Sequence) -> None:
        """Give the drafter the features that it has not seen."""
        if sequence.unseen:
            assert self.drafter is not None
            assert sequence.drafter_slot is not None
            unseen = sequence.unseen
            features = unseen[0] if len(unseen) == 1 else torch.cat(unseen)
            self.drafter.extend(features, sequence.drafter_slot)
            unseen.clear()
