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

Choose = Callable[[int], tuple[int, int, int]]  # position -> drafts asked for, w, u


@dataclass(frozen=True)
class CostModel:
    """ms of a round: a curve over lengths, corrected for the distinct experts it really had.

    Attributes:
        round_ms: [W + 1] mean ms at index w where a whole block is drafted, with everything that no
            length changes.
        plain_ms: a round of plain decoding (w = 1 without a drafter).
        eta_ms: one distinct (layer, expert) pair more than the mean at that length.
        mean_pairs: [W + 1] distinct pairs on average at index w; only used with eta_ms.
        extra_ms: a token that Stage 0 ran and Stage 1 did not.
        saved_ms: [D + 1] what a call for fewer drafts saves, at index drafts; None: nothing.
    """

    round_ms: NDArray[np.float64]
    plain_ms: float
    eta_ms: float = 0.0
    mean_pairs: NDArray[np.float64] | None = None
    extra_ms: float = 0.0
    saved_ms: NDArray[np.float64] | None = None

    def curve(self, drafts: int) -> NDArray[np.float64]:
        """[W + 1] mean ms of rounds that ask for so many drafts."""
        return self.round_ms if self.saved_ms is None else self.round_ms - self.saved_ms[drafts]

    def __call__(self, w: int, u: int, pairs: int, drafts: int) -> float:
        """ms of a round of w inputs of which Stage 0 saw u >= w, with so many distinct pairs."""
        saved = 0.0 if self.saved_ms is None else self.saved_ms[drafts]
        ms = self.round_ms[w] - saved + self.extra_ms * (u - w)
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


def room(trace: Trace, limit: int | None) -> NDArray[np.int32]:
    """[N] tokens that may still be emitted after each anchor, where answers have at most `limit`.

    An answer that its text ends does not know so beforehand: rounds near its end verify drafts past
    it. Without a limit, what is left of the answer.
    """
    if limit is None:
        return trace.left
    ends = np.append(trace.starts(), len(trace))
    numbers = np.arange(len(trace)) - np.repeat(ends[:-1], np.diff(ends))
    return np.maximum(limit - 1 - numbers, trace.left).astype(np.int32)


def replay(trace: Trace, policy: LengthPolicy, cost: CostModel, limit: int | None = None) -> Walk:
    """Walk every answer of the trace with one policy. A policy that learns is told the prices.

    limit: most tokens of an answer, as `room` takes it.
    """
    left = room(trace, limit)
    return _walk(trace, cost, lambda at: decide(trace, policy, at, int(left[at])), policy)


def replay_known(
    trace: Trace, lengths: NDArray[np.int64], cost: CostModel, drafts: int | None = None
) -> Walk:
    """Walk with a length from 2 given for every position [N], as an oracle has it.

    drafts: how many each round asks for; None: a whole block.
    """
    most = trace.drafts if drafts is None else drafts

    def choose(at: int) -> tuple[int, int, int]:
        w = min(int(lengths[at]), int(trace.left[at]))
        return min(most, int(trace.left[at]) - 1) if w > 1 else 0, w, w

    return _walk(trace, cost, choose, None)


def _walk(trace: Trace, cost: CostModel, choose: Choose, policy: LengthPolicy | None) -> Walk:
    columns = zip(*_rounds(trace, cost, choose, policy), strict=True)
    at, w, emitted, ms = (np.array(column) for column in columns)
    drafts = w - 1
    would = np.minimum(trace.accepted[at], trace.left[at] - 1)
    lost = np.maximum(would - drafts, 0)
    return Walk(w, emitted, ms, at, int((trace.drafts - drafts).sum()), int(lost.sum()))


def _rounds(
    trace: Trace, cost: CostModel, choose: Choose, policy: LengthPolicy | None
) -> Iterator[tuple[int, int, int, float]]:
    """Position, w, emitted tokens and ms of each round."""
    pairs = distinct_pairs(trace)
    begin, observe = getattr(policy, "begin", None), getattr(policy, "observe", None)
    for start, end in pairwise([*trace.starts().tolist(), len(trace)]):
        at = start
        if begin is not None:
            begin()
        while at < end:
            drafts, w, u = choose(at)
            emitted = min(int(trace.accepted[at]) + 1, w, int(trace.left[at]))
            ms = cost(w, u, int(pairs[at, w]), drafts) if drafts else cost.plain_ms
            if observe is not None:
                observe(w, emitted - 1, ms / 1e3)
            yield at, w, emitted, ms
            at += emitted


def decide(trace: Trace, policy: LengthPolicy, at: int, left: int) -> tuple[int, int, int]:
    """Drafts that the policy asks for at a position, its w, and Stage 0's u, as a real round has
    them where at most `left` tokens may be emitted."""
    drafts = min(policy.drafts(), left - 1)
    proposal = None
    if drafts >= 1:
        scores = (torch.from_numpy(t[at, :drafts]) for t in (trace.confidence, trace.entropy))
        proposal = Proposal(torch.zeros(drafts, dtype=torch.long), *scores)
    choice = policy.select(proposal)
    u = min(choice.w0 + policy.lookahead, left, 1 + max(drafts, 0))
    experts = torch.from_numpy(trace.experts[at, 0, :u].astype(np.int64))
    return max(drafts, 0), min(policy.correct(choice, experts), u), u


def oracle_lengths(trace: Trace, cost: CostModel, longest: int) -> NDArray[np.int64]:
    """[N] the length with A_D known: verify exactly what is accepted, if that pays at all.

    A round that accepts a drafts costs least at w = a + 1; shorter ones trade tokens for time, so
    the best at the pooled rate is found by Dinkelbach's iteration over all positions.
    """
    w = np.arange(2, longest + 1)
    tokens = np.minimum(trace.accepted[:, None], w - 1) + 1
    ms, rate = cost.curve(longest - 1)[w], 0.0
    while True:
        best = (tokens - rate * ms).argmax(1)
        new = tokens[np.arange(len(trace)), best].sum() / ms[best].sum()
        if new <= rate + 1e-12:
            return np.asarray(w[best], np.int64)
        rate = float(new)


def expert_oracle_lengths(
    trace: Trace, prefix: NDArray[np.float64], cost: CostModel
) -> NDArray[np.int64]:
    """[N] the length with all layers' experts of every draft known before the choice, A_D not.

    What equation 6 could gain at most: the best G(w) - rho ms, where ms has the distinct pairs that
    the round would really have, at the fixed point of Dinkelbach's iteration over whole rounds.

    prefix: [N, M] p_1..p_M of the acceptance model, of the M drafts that are asked for.
    """
    w = np.arange(2, prefix.shape[1] + 2)
    tokens = 1 + prefix.cumsum(1)
    ms = np.broadcast_to(cost.curve(prefix.shape[1])[w], tokens.shape)
    if cost.mean_pairs is not None:
        ms = ms + cost.eta_ms * (distinct_pairs(trace)[:, w] - cost.mean_pairs[w])
    rounds, rate = trace.walk(trace.drafts + 1), 0.0
    while True:
        best = (tokens - rate * ms).argmax(1)
        new = tokens[rounds, best[rounds]].sum() / ms[rounds, best[rounds]].sum()
        if new <= rate + 1e-12:
            return np.asarray(w[best], np.int64)
        rate = float(new)
