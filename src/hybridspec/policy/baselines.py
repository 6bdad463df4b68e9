"""The length rules of other systems, as the paper and their own sources define them.

They see the same proposals and pay their own runtime's cost; none looks at the router.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy.length import Choice, Uncorrected
from hybridspec.policy.objective import SHORTEST, expected_tokens

Acceptance = Callable[[Tensor, Tensor], Tensor]


def raw(confidence: Tensor, entropy: Tensor) -> Tensor:
    """The drafter's top-1 confidence taken for the probability of acceptance, [..., M]."""
    return confidence


def dcut_lengths(block: int) -> tuple[int, ...]:
    """D-Cut's four fractions of the whole target input W: 4, 8, 12, 16 at W = 16 (paper E.1)."""
    return tuple(sorted({max(SHORTEST, block * quarter // 4) for quarter in (1, 2, 3, 4)}))


def angelslim_lengths(block: int) -> tuple[int, ...]:
    """The same fractions of the drafts, as D-Cut's own code takes them: 5, 9, 13, 16 at W = 16."""
    drafts = block - 1
    return tuple(sorted({1 + -(-drafts * quarter // 4) for quarter in (1, 2, 3, 4)}))


@dataclass(frozen=True)
class RatioPolicy(Uncorrected):
    """argmax over lengths of expected tokens over the round's own cost, ties to the shorter.

    EVICT with every length and raw confidence; D-Cut with four lengths; DSpark's rule at batch one
    with scaled confidence.

    Attributes:
        cost: [W + 1] whole-round ms at index w, of this system's runtime.
        lengths: the choices, ascending.
        conditional: c_1..c_M from confidence and entropy [M].
        longest: W.
    """

    cost: Tensor
    lengths: tuple[int, ...]
    conditional: Acceptance = raw
    longest: int = 16
    lookahead: int = 0
    scored: bool = True

    def select(self, proposal: Proposal | None) -> Choice:
        """The length with the best ratio."""
        if proposal is None:
            return Choice(1)
        prefix = _prefix(self.conditional, proposal)
        reachable = [w for w in self.lengths if w <= len(prefix) + 1]
        if not reachable:  # fewer tokens are left than the shortest choice
            return Choice(len(prefix) + 1, prefix)
        at = torch.tensor(reachable, device=prefix.device)
        ratio = expected_tokens(prefix)[at - 1] / self.cost[at]
        return Choice(reachable[int(ratio.argmax())], prefix)

    def scores(self, prefix: Sequence[float]) -> dict[int, float]:
        """G(w) / C(w), tokens a ms, of every length among the choices, given p_1..p_M."""
        tokens, cost = list(accumulate(prefix, initial=1.0)), self.cost.tolist()
        return {w: tokens[w - 1] / cost[w] for w in self.lengths if w <= len(tokens)}

    def reason(self) -> str:
        """What it goes by."""
        which = "every length" if len(self.lengths) > 4 else f"w = {_listed(self.lengths)}"
        return f"the highest G(w) / C(w), tokens a ms of the round alone, of {which}"


@dataclass(frozen=True)
class ThresholdPolicy(Uncorrected):
    """SpecDec++: stop where a rejection becomes likelier than h: w = 1 + max {i: p_i >= 1 - h}."""

    threshold: float
    conditional: Acceptance = raw
    longest: int = 16
    lookahead: int = 0
    scored: bool = True

    def select(self, proposal: Proposal | None) -> Choice:
        """At least one draft is verified: it is there."""
        if proposal is None:
            return Choice(1)
        prefix = _prefix(self.conditional, proposal)
        drafts = int((prefix >= 1 - self.threshold).sum())  # prefix never grows: the first ones
        return Choice(max(SHORTEST, 1 + drafts), prefix)

    def reason(self) -> str:
        """What it goes by."""
        return f"the drafts whose p is {1 - self.threshold:g} or more, and at least one"


def _listed(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))


def _prefix(conditional: Acceptance, proposal: Proposal) -> Tensor:
    assert proposal.confidence is not None
    assert proposal.entropy is not None
    return conditional(proposal.confidence, proposal.entropy).cumprod(-1)


@dataclass
class EmaPolicy(Uncorrected):
    """SGLang's adaptive steps: a moving mean of accepted drafts picks among a few lengths.

    The mean moves by `rate` a round; every `every` rounds after `warm_up` the smallest candidate of
    at least mean + 1/2 drafts is taken (our reading: the source gives the constants, not this
    rule), and a lower one than before only if it still is with `hysteresis` on top.

    Attributes:
        candidates: draft counts, ascending.
    """

    candidates: tuple[int, ...] = (1, 3, 5, 7)
    rate: float = 0.2
    warm_up: int = 10
    every: int = 5
    hysteresis: float = 0.25
    longest: int = field(init=False)
    lookahead: int = 0
    scored: bool = False
    _mean: float = field(init=False)
    _drafts: int = field(init=False)
    _rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.longest = self.candidates[-1] + 1
        self._drafts = self.candidates[len(self.candidates) // 2]
        self._mean = float(self._drafts)

    def drafts(self) -> int:
        """Those in force."""
        return self._drafts

    def select(self, proposal: Proposal | None) -> Choice:
        """The length in force."""
        return Choice(1 if proposal is None else self._drafts + 1)

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        """Learn from a finished round."""
        if w < SHORTEST:
            return
        self._mean += self.rate * (accepted - self._mean)
        self._rounds += 1
        if self._rounds > self.warm_up and self._rounds % self.every == 0:
            self._drafts = self._choose()

    def reason(self) -> str:
        """What it goes by."""
        return f"{self._drafts} drafts, since {self._mean:.1f} were accepted a round of late"

    def _choose(self) -> int:
        wanted = _first_at_least(self.candidates, self._mean + 0.5)
        if wanted < self._drafts:
            return _first_at_least(self.candidates, self._mean + 0.5 + self.hysteresis)
        return wanted


def _first_at_least(candidates: Sequence[int], value: float) -> int:
    return next((c for c in candidates if c >= value), candidates[-1])


@dataclass
class CascadePolicy(Uncorrected):
    """Cascade: short trials of every length, then for a while the one with most tokens a second.

    Plain decoding is among the lengths, so speculation that does not pay is switched off (its
    utility, token gain over cost gain, is below 1).

    Attributes:
        lengths: the candidates, w = 1 first.
        trial: rounds each candidate is tried.
        hold: rounds the winner is kept.
    """

    lengths: tuple[int, ...] = (1, 2, 4, 6, 8, 16)
    trial: int = 4
    hold: int = 64
    lookahead: int = 0
    scored: bool = False
    longest: int = field(init=False)
    _spent: dict[int, list[float]] = field(default_factory=dict, init=False)
    _queue: list[int] = field(default_factory=list, init=False)
    _testing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.longest = max(self.lengths)

    def drafts(self) -> int:
        """Those of the length under trial, or of the winner."""
        if not self._queue:
            self._turn()
        return self._queue[0] - 1

    def select(self, proposal: Proposal | None) -> Choice:
        """The length under trial, or the winner."""
        return Choice(1 if proposal is None else self.drafts() + 1)

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        """Count a finished round, unless the end of an answer cut its length."""
        if not self._queue:
            return
        planned = self._queue.pop(0)
        if self._testing and w == planned:
            tokens, time = self._spent.setdefault(w, [0.0, 0.0])
            self._spent[w] = [tokens + accepted + 1, time + seconds]

    def reason(self) -> str:
        """What it goes by."""
        if self._testing:
            return f"a trial of w = {self.drafts() + 1}, {self.trial} rounds each"
        return f"the length with most tokens a second in its trial, {len(self._queue)} rounds more"

    def _turn(self) -> None:
        """Begin trials, or having ended them the winner's reign."""
        if self._testing and self._spent:
            best = max(self._spent, key=lambda w: self._spent[w][0] / self._spent[w][1])
            self._queue, self._testing = [best] * self.hold, False
        else:
            self._spent = {}
            self._queue = [w for w in self.lengths for _ in range(self.trial)]
            self._testing = True


@dataclass
class LaggedRatioPolicy(Uncorrected):
    """vLLM's adaptive verification at batch one: the best ratio, by the confidence one round old.

    The budget is chosen before the proposal is read back, with confidence smoothed by `smoothing`.

    Attributes:
        cost: [W + 1] whole-round ms, made monotone.
        conditional: c_1..c_M from confidence and entropy.
    """

    cost: Tensor
    conditional: Acceptance = raw
    smoothing: float = 0.8
    longest: int = 16
    lookahead: int = 0
    scored: bool = True
    _past: Tensor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.cost = self.cost.cummax(0).values

    def select(self, proposal: Proposal | None) -> Choice:
        """The length that suited the proposals so far; the whole block at first."""
        if proposal is None:
            return Choice(1)
        assert proposal.confidence is not None
        assert proposal.entropy is not None
        now = self.conditional(proposal.confidence, proposal.entropy)
        past = self._past
        if len(now) == self.longest - 1:
            mixed = now if past is None else self.smoothing * now + (1 - self.smoothing) * past
            self._past = mixed
        if past is None:
            return Choice(len(now) + 1)
        expected = expected_tokens(past.cumprod(-1))[: len(now) + 1]
        ratio = expected / self.cost[1 : len(expected) + 1]
        return Choice(1 + int(ratio[1:].argmax()) + 1)

    def reason(self) -> str:
        """What it goes by."""
        return "the highest G(w) / C(w) of the proposals before this one, the older ones less"
