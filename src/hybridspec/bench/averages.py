"""Averages as the paper's tables have them: the arithmetic mean over categories (appendix E.1).

Speeds are pooled within a category, and the categories count alike however long their answers.
Intervals resample prompts within each category, a prompt with all its answers of all systems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hybridspec.bench.records import Record
from hybridspec.bench.speeds import PERCENTILES, Floats, Speedup, by_prompt, resampled

Sums = Sequence[Floats]  # by category [..., 2 * systems]: decode tokens and seconds of each


@dataclass(frozen=True, slots=True)
class Averages:
    """Means over categories; None where some category lacks the figure.

    Attributes:
        acceptance_length: AL. verification_length: w. unverified: drafts a round.
        speedup: SR over the baseline.
    """

    acceptance_length: float | None
    verification_length: float | None
    unverified: float | None
    speedup: Speedup | None


def mean_speedup(ours: Iterable[Record], baseline: Iterable[Record]) -> Speedup | None:
    """Avg. SR: the mean over categories of our pooled speed over the baseline's."""
    return _estimate(_tables(ours, baseline), _mean_ratio)


def gain(
    ours: Iterable[Record], variant: Iterable[Record], baseline: Iterable[Record]
) -> Speedup | None:
    """Table 3's gain: our Avg. SR over the variant's, paired by prompt."""

    def ratio(sums: Sums) -> Floats:
        numerator = _mean_ratio([np.delete(s, (2, 3), -1) for s in sums])
        denominator = _mean_ratio([np.delete(s, (0, 1), -1) for s in sums])
        quotient: Floats = numerator / denominator
        return quotient

    return _estimate(_tables(ours, variant, baseline), ratio)


def mean_of(values: Iterable[float | None]) -> float | None:
    """The mean, None where one is missing or there are none."""
    known = list(values)
    if not known or any(v is None for v in known):
        return None
    return float(np.mean([v for v in known if v is not None]))


def _mean_ratio(sums: Sums) -> Floats:
    """[..., 4] by category -> [...]: mean of the first system's speed over the second's."""
    ratios = [(s[..., 0] / s[..., 1]) / (s[..., 2] / s[..., 3]) for s in sums]
    mean: Floats = np.mean(ratios, axis=0)
    return mean


def _tables(*systems: Iterable[Record]) -> list[Floats]:
    """By category [prompts, 2 * systems], of the prompts that all systems answered."""
    answered = [list(records) for records in systems]
    sums = [by_prompt(records) for records in answered]
    groups: dict[str, dict[str, None]] = {}
    for record in answered[0]:
        if all(record.key.prompt in s for s in sums):
            groups.setdefault(record.category, {})[record.key.prompt] = None
    rows = ([[v for s in sums for v in s[prompt]] for prompt in group] for group in groups.values())
    return [np.array(table, dtype=float) for table in rows]


def _estimate(tables: Sums, statistic: Callable[[Sums], Floats]) -> Speedup | None:
    """The statistic of the sums and its interval; no interval with a category of one prompt."""
    totals = [table.sum(0) for table in tables]
    if not tables or not all((t > 0).all() for t in totals):
        return None
    value, prompts = float(statistic(totals)), sum(map(len, tables))
    if min(map(len, tables)) < 2:
        return Speedup(value, None, None, prompts)
    generator = np.random.default_rng(0)
    drawn = [resampled(table, generator) for table in tables]
    kept = np.all([(d > 0).all(1) for d in drawn], axis=0)
    low, high = np.percentile(statistic([d[kept] for d in drawn]), PERCENTILES)
    return Speedup(value, float(low), float(high), prompts)
