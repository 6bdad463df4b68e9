"""Replay: walk any policy over a dense trace and price its rounds by a cost model.

No model runs. A round at position t emits min(A_D, w - 1) + 1 tokens, and no more than are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from hybridspec.calibration.cost import new_in_row
from hybridspec.calibration.trace import Trace
from hybridspec.core import Proposal
from hybridspec.policy.length import LengthPolicy

Choose = Callable[[int], tuple[bool, int, int]]  # position -> drafted, w, u
Observe = Callable[[int, int, float], None]


@dataclass(frozen=True)
class CostModel:
    """ms of a round: a curve over lengths, corrected for the distinct experts it really had.

    Attributes:
        round_ms: [W + 1] mean ms at index w, with everything that no length changes.
        plain_ms: a round of plain decoding (w = 1 without a drafter).
        eta_ms: one distinct (layer, expert) pair more than the mean at that length.
        mean_pairs: [W + 1] distinct pairs on average at index w; only used with eta_ms.
        extra_ms: a token that Stage 0 ran and Stage 1 did not.
    """

    round_ms: NDArray[np.float64]
    plain_ms: float
    eta_ms: float = 0.0
    mean_pairs: NDArray[np.float64] | None = None
    extra_ms: float = 0.0

    def __call__(self, w: int, u: int, pairs: int) -> float:
        """ms of a round of w inputs of which Stage 0 saw u >= w, with so many distinct pairs."""
        ms = self.round_ms[w] + self.extra_ms * (u - w)
        if self.eta_ms and self.mean_pairs is not None:
            ms += self.eta_ms * (pairs - self.mean_pairs[w])
        return float(ms)


@dataclass(frozen=True)
class Walk:
    """A policy's rounds over a trace.

    Attributes:
        w, emitted: [R] lengths and tokens of each round.
        ms: [R] price of each round.
        at: [R] position where it began.
        wasted, lost: drafts that were not verified, and how many of those would have been accepted.
    """

    w: NDArray[np.int64]
    emitted: NDArray[np.int64]
    ms: NDArray[np.float64]
    at: NDArray[np.int64]
    wasted: int
    lost: int

    @property
    def rate(self) -> float:
        """Pooled tokens a ms (paper equation 4)."""
        return float(self.emitted.sum() / self.ms.sum())


def distinct_pairs(trace: Trace) -> NDArray[np.int64]:
    """[N, W + 1] distinct (layer, expert) pairs of the first w inputs, at index w."""
    per_row = new_in_row(trace.experts).sum(1).cumsum(1)
    return np.pad(per_row, ((0, 0), (1, 0)))


def replay(trace: Trace, policy: LengthPolicy, cost: CostModel) -> Walk:
    """Walk every answer of the trace with one policy. A policy that learns is told the prices."""
    observe = getattr(policy, "observe", None)
    return _walk(trace, cost, lambda at: decide(trace, policy, at), observe)


def replay_known(trace: Trace, lengths: NDArray[np.int64], cost: CostModel) -> Walk:
    """Walk with a length from 2 given for every position [N], as an oracle has it."""

    def choose(at: int) -> tuple[bool, int, int]:
        w = min(int(lengths[at]), int(trace.left[at]))
        return w > 1, w, w

    return _walk(trace, cost, choose, None)


def _walk(trace: Trace, cost: CostModel, choose: Choose, observe: Observe | None) -> Walk:
    columns = zip(*_rounds(trace, cost, choose, observe), strict=True)
    at, w, emitted, ms = (np.array(column) for column in columns)
    drafts = w - 1
    would = np.minimum(trace.accepted[at], trace.left[at] - 1)
    lost = np.maximum(would - drafts, 0)
    return Walk(w, emitted, ms, at, int((trace.drafts - drafts).sum()), int(lost.sum()))


def _rounds(
    trace: Trace, cost: CostModel, choose: Choose, observe: Observe | None
) -> Iterator[tuple[int, int, int, float]]:
    """Position, w, emitted tokens and ms of each round."""
    pairs = distinct_pairs(trace)
    for start, end in pairwise([*trace.starts().tolist(), len(trace)]):
        at = start
        while at < end:
            drafted, w, u = choose(at)
            emitted = min(int(trace.accepted[at]) + 1, w, int(trace.left[at]))
            ms = cost(w, u, int(pairs[at, w])) if drafted else cost.plain_ms
            if observe is not None:
                observe(w, emitted - 1, ms / 1e3)
            yield at, w, emitted, ms
            at += emitted


def decide(trace: Trace, policy: LengthPolicy, at: int) -> tuple[bool, int, int]:
    """Whether the policy drafts at a position, its w, and Stage 0's u, as a real round has them."""
    left = int(trace.left[at])
    drafts = min(policy.drafts(), left - 1)
    proposal = None
    if drafts >= 1:
        scores = (torch.from_numpy(t[at, :drafts]) for t in (trace.confidence, trace.entropy))
        proposal = Proposal(torch.zeros(drafts, dtype=torch.long), *scores)
    choice = policy.select(proposal)
    u = min(choice.w0 + policy.lookahead, left, 1 + max(drafts, 0))
    experts = torch.from_numpy(trace.experts[at, 0, :u].astype(np.int64))
    return drafts >= 1, min(policy.correct(choice, experts), u), u


def oracle_lengths(trace: Trace, cost: CostModel, longest: int) -> NDArray[np.int64]:
    """[N] the length with A_D known: verify exactly what is accepted, if that pays at all.

    A round that accepts a drafts costs least at w = a + 1; shorter ones trade tokens for time, so
    the best at the pooled rate is found by Dinkelbach's iteration over all positions.
    """
    w = np.arange(2, longest + 1)
    tokens = np.minimum(trace.accepted[:, None], w - 1) + 1
    ms, rate = cost.round_ms[w], 0.0
    while True:
        best = (tokens - rate * ms).argmax(1)
        new = tokens[np.arange(len(trace)), best].sum() / ms[best].sum()
        if new <= rate + 1e-12:
            return np.asarray(w[best], np.int64)
        rate = float(new)
