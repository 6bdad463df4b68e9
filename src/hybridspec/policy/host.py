"""The policy's arithmetic on a few Python numbers, for proposals that lie in host memory.

On a CPU some forty tensor operations on fifteen numbers cost a round more than a millisecond; the
same sums in Python cost a fiftieth. `acceptance.py` and `objective.py` are the law; tests compare.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import exp, log, log1p
from operator import mul

from hybridspec.policy.acceptance import EDGE, MIN_ENTROPY, AcceptanceModel
from hybridspec.policy.objective import SHORTEST, CorrectionTables

Numbers = Sequence[float]


@dataclass(frozen=True)
class HostAcceptance:
    """`AcceptanceModel` in Python numbers: knots of each position's curve, weights, D."""

    x: tuple[tuple[float, ...], ...]
    y: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    block: int

    @staticmethod
    def of(model: AcceptanceModel) -> HostAcceptance:
        """The same model."""
        x, y = (tuple(map(tuple, t.tolist())) for t in (model.curves.x, model.curves.y))
        return HostAcceptance(x, y, tuple(model.weights.tolist()), model.block)

    def logits(self, confidence: Numbers, entropy: Numbers) -> list[float]:
        """ln(c_i / (1 - c_i)) for drafts 1..M (paper appendix A.2)."""
        bias, of_c, of_place, of_both, of_h, of_change = self.weights
        out, mean = [], max(entropy[0], MIN_ENTROPY)
        for i, (c, h) in enumerate(zip(confidence, entropy, strict=True)):
            h = max(h, MIN_ENTROPY)
            odds, place = _log_odds(_interpolated(self.x[i], self.y[i], c)), (i + 1) / self.block
            z = bias + of_c * odds + of_place * place + of_both * odds * place
            out.append(z + of_h * log1p(h) + of_change * log(h / mean))
            mean = (h + mean) / 2
        return out

    def prefix(self, confidence: Numbers, entropy: Numbers) -> list[float]:
        """p_1..p_M."""
        return prefix_of(self.logits(confidence, entropy))


def prefix_of(logits: Numbers) -> list[float]:
    """Running products of the probabilities behind some logits."""
    return list(accumulate((sigmoid(z) for z in logits), mul))


def sigmoid(z: float) -> float:
    """1 / (1 + e^-z), for any z."""
    return 1 / (1 + exp(-z)) if z > -700 else 0.0


def _log_odds(p: float) -> float:
    p = min(max(p, EDGE), 1 - EDGE)
    return log(p / (1 - p))


def _interpolated(x: tuple[float, ...], y: tuple[float, ...], at: float) -> float:
    """Linear between knots, flat beyond them."""
    right = bisect_right(x, at)
    if right == 0:
        return y[0]
    if right == len(x) or x[right] == x[right - 1]:
        return y[right - 1]
    part = (at - x[right - 1]) / (x[right] - x[right - 1])
    return y[right - 1] + part * (y[right] - y[right - 1])


def scores(
    prefix: Numbers, cost: Numbers, rho: float, shortest: int = SHORTEST
) -> dict[int, float]:
    """G(w) - rho C(w) by length; arguments as `objective.select`."""
    tokens = accumulate(prefix, initial=1.0)
    every = {w: g - rho * cost[w] for w, g in enumerate(tokens, 1)}
    return {w: score for w, score in every.items() if w >= shortest}


def select(prefix: Numbers, cost: Numbers, rho: float, shortest: int = SHORTEST) -> int:
    """w0 by equation 5, ties to the shorter; arguments as `objective.select`."""
    every = scores(prefix, cost, rho, shortest)
    return max(every, key=every.__getitem__)  # the first of equals


@dataclass(frozen=True)
class HostTables:
    """`CorrectionTables` in Python numbers."""

    step_ms: float
    expert_ms: float
    mean: tuple[float, ...]
    given: tuple[tuple[float, ...], ...]

    @staticmethod
    def of(tables: CorrectionTables) -> HostTables:
        """The same tables."""
        given = tuple(map(tuple, tables.given.tolist()))
        return HostTables(tables.step_ms, tables.expert_ms, tuple(tables.mean.tolist()), given)

    def added_ms(self, w: int, new: int, cost: Numbers) -> float:
        """Delta L_c of a step from w to w + 1 that adds `new` layer-0 experts."""
        curve = cost[w + 1] - cost[w] - self.step_ms
        return curve + self.expert_ms * self.surplus(w, new)

    def surplus(self, w: int, new: int) -> float:
        """Pairs that draft d_w is expected to add beyond the average, its new experts known."""
        return self.given[w][new] - self.mean[w]


def every_new(experts: Sequence[Sequence[int]]) -> list[int]:
    """New layer-0 experts of every row, as `objective.every_new`."""
    seen: set[int] = set()
    out = []
    for row in experts:
        out.append(len(seen.union(row)) - len(seen))
        seen.update(row)
    return out


def correct(
    w0: int,
    experts: Sequence[Sequence[int]],
    prefix: Numbers,
    cost: Numbers,
    rho: float,
    tables: HostTables,
) -> int:
    """w_c by equation 6; arguments as `objective.correct`."""
    if w0 >= len(experts):
        return w0
    added = tables.added_ms(w0, every_new(experts[: w0 + 1])[w0], cost)
    return w0 + (prefix[w0 - 1] > rho * added)


def reconsider(
    w0: int,
    experts: Sequence[Sequence[int]],
    prefix: Numbers,
    cost: Numbers,
    rho: float,
    tables: HostTables,
    *,
    shrink: bool,
) -> int:
    """The best length up to u = len(experts); arguments as `objective.reconsider`."""
    new = every_new(experts)
    w0 = min(w0, len(new))
    step = {w: prefix[w - 1] - rho * tables.added_ms(w, new[w], cost) for w in range(1, len(new))}
    score = {w0: 0.0}
    for w in range(w0, len(new)):
        score[w + 1] = score[w] + step[w]
    for w in range(w0 - 1, SHORTEST - 1 if shrink else w0 - 1, -1):
        score[w] = score[w + 1] - step[w]
    return max(sorted(score), key=score.__getitem__)  # the first of equals
