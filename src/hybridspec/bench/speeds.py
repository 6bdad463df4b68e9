"""Pooled speed, and speed-up with its interval.

Decode tokens are those after an answer's first, and pooled speed is all decode tokens over all
decode seconds, so that long answers weigh more than short ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

from hybridspec.bench.records import Record

RESAMPLES = 10_000
PERCENTILES = (2.5, 97.5)
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of the repeats' figures, the least and the greatest; one figure a repeat."""

    median: float
    low: float
    high: float
    repeats: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Speedup:
    """How many times the baseline's pooled speed, with a paired bootstrap interval over prompts.

    `low` and `high` bound it at 95%. They are None for a single prompt: it says nothing of others.
    """

    value: float
    low: float | None
    high: float | None
    prompts: int


def throughput(records: Iterable[Record]) -> Spread | None:
    """Pooled decode tokens per second of each repeat; None if some repeat decoded nothing."""
    pooled: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in records:
        pooled[record.key.repeat][0] += record.decode_tokens
        pooled[record.key.repeat][1] += record.decode_seconds
    if not pooled or not all(tokens and seconds for tokens, seconds in pooled.values()):
        return None
    rates = tuple(tokens / seconds for _, (tokens, seconds) in sorted(pooled.items()))
    return Spread(median(rates), min(rates), max(rates), rates)


def speedup(ours: Iterable[Record], baseline: Iterable[Record]) -> Speedup | None:
    """Pooled speed of `ours` over that of `baseline`, all repeats together.

    The interval resamples prompts, and with a prompt takes all its repeats of both systems.
    """
    mine, theirs = by_prompt(ours), by_prompt(baseline)
    prompts = [p for p in mine if p in theirs]
    # [prompts, 4]: our tokens and seconds, the baseline's tokens and seconds
    table = np.array([mine[p] + theirs[p] for p in prompts], dtype=float).reshape(-1, 4)
    if not np.all(table.sum(0) > 0):
        return None
    value = float(_ratio(table.sum(0)))
    if len(prompts) < 2:
        return Speedup(value, None, None, len(prompts))
    low, high = _bootstrap(table)
    return Speedup(value, low, high, len(prompts))


def by_prompt(records: Iterable[Record]) -> dict[str, list[float]]:
    """Decode tokens and seconds of each prompt, its repeats and turns together."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in records:
        sums[record.key.prompt][0] += record.decode_tokens
        sums[record.key.prompt][1] += record.decode_seconds
    return sums


def _ratio(table: Floats) -> Floats:
    """[..., 4] -> [...]: our tokens per second over theirs."""
    quotient: Floats = (table[..., 0] / table[..., 1]) / (table[..., 2] / table[..., 3])
    return quotient


def _bootstrap(table: Floats) -> tuple[float, float]:
    """The interval of the ratio; seeded, so that the same records give the same interval."""
    totals = resampled(table, np.random.default_rng(0))
    kept = totals[(totals > 0).all(1)]  # a sample of one-token answers alone has no speed
    low, high = np.percentile(_ratio(kept), PERCENTILES)
    return float(low), float(high)


def resampled(table: Floats, generator: np.random.Generator) -> Floats:
    """[prompts, n] -> [RESAMPLES, n]: sums over as many prompts, drawn with replacement."""
    prompts = len(table)
    drawn = generator.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
    totals: Floats = drawn @ table
    return totals
