"""Figures from records: pooled speed, speed-up with its interval, acceptance, lengths, round times.

Counting: w counts target inputs, the anchor included; A counts accepted drafts; a round emits A + 1
tokens, which is the acceptance length. Decode tokens are those after the first, and pooled speed is
all decode tokens over all decode seconds, so that long answers weigh more than short ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hybridspec.bench.records import Record

RESAMPLES = 10_000
PERCENTILES = (2.5, 97.5)


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


@dataclass(frozen=True, slots=True)
class Figures:
    """What one system did on some prompts. Speeds are None where no answer had a second token.

    Attributes:
        generations: records pooled here.
        tokens: tokens emitted, all repeats together.
        decode_tokens: those after each answer's first.
        decode_seconds: their time.
        tokens_per_second: pooled decode speed.
        speedup: over the baseline; None for lack of speed.
        rounds: rounds run.
        seconds_per_round: median.
        mean_seconds_per_round: mean.
        mean_acceptance_length: tokens emitted a round, before any trimming at a stop.
        mean_verification_length: mean w.
        acceptance_histogram: rounds by A, 0 to block size - 1.
        verification_length_histogram: rounds by w, 0 to block size.
        finish_reasons: answers by how they ended.
        prefill_seconds: median.
        prompt_tokens: over distinct prompts.
    """

    generations: int
    tokens: int
    decode_tokens: int
    decode_seconds: float
    tokens_per_second: Spread | None
    speedup: Speedup | None
    rounds: int
    seconds_per_round: float | None
    mean_seconds_per_round: float | None
    mean_acceptance_length: float | None
    mean_verification_length: float | None
    acceptance_histogram: tuple[int, ...]
    verification_length_histogram: tuple[int, ...]
    finish_reasons: dict[str, int]
    prefill_seconds: float
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of the rounds of one system at one w, drafting included: quartiles and median."""

    system: str
    w: int
    rounds: int
    median: float
    low: float
    high: float


def figures(records: Sequence[Record], baseline: Sequence[Record], block_size: int) -> Figures:
    """Pool the records of one system; `baseline` holds the baseline's on the same prompts."""
    rounds = [r for record in records for r in record.rounds]
    return Figures(
        generations=len(records),
        tokens=sum(len(r.token_ids) for r in records),
        decode_tokens=sum(r.decode_tokens for r in records),
        decode_seconds=sum(r.decode_seconds for r in records),
        tokens_per_second=throughput(records),
        speedup=speedup(records, baseline),
        rounds=len(rounds),
        seconds_per_round=_or_none(median, [r.seconds for r in rounds]),
        mean_seconds_per_round=_or_none(np.mean, [r.seconds for r in rounds]),
        mean_acceptance_length=_or_none(np.mean, [r.accepted + 1 for r in rounds]),
        mean_verification_length=_or_none(np.mean, [r.w for r in rounds]),
        acceptance_histogram=histogram((r.accepted for r in rounds), block_size),
        verification_length_histogram=histogram((r.w for r in rounds), block_size + 1),
        finish_reasons=dict(Counter(r.finish_reason for r in records)),
        prefill_seconds=median(r.prefill_seconds for r in records),
        prompt_tokens=sum({r.key.prompt: r.prompt_tokens for r in records}.values()),
    )


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
    mine, theirs = _by_prompt(ours), _by_prompt(baseline)
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


def histogram(values: Iterable[int], size: int) -> tuple[int, ...]:
    """How often each of 0..size - 1 occurs; every value must be one of them."""
    counts = Counter(values)
    outside = [value for value in counts if not 0 <= value < size]
    if outside:
        raise ValueError(f"a histogram of {size} bins has none for {outside[0]}")
    return tuple(counts[value] for value in range(size))


def costs(records: Iterable[Record]) -> list[Cost]:
    """C(w): the time of a round by system and w, over all rounds."""
    groups: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for record in records:
        for r in record.rounds:
            groups[record.key.system, r.w].append(r.seconds)
    return [
        Cost(system, w, len(times), *(float(q) for q in np.percentile(times, (50, 25, 75))))
        for (system, w), times in groups.items()
    ]


def _by_prompt(records: Iterable[Record]) -> dict[str, list[float]]:
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for record in records:
        sums[record.key.prompt][0] += record.decode_tokens
        sums[record.key.prompt][1] += record.decode_seconds
    return sums


def _ratio(table: np.ndarray) -> np.ndarray:
    """[..., 4] -> [...]: our tokens per second over theirs."""
    quotient: np.ndarray = (table[..., 0] / table[..., 1]) / (table[..., 2] / table[..., 3])
    return quotient


def _bootstrap(table: np.ndarray) -> tuple[float, float]:
    """The interval of the ratio; seeded, so that the same records give the same interval."""
    prompts = len(table)
    generator = np.random.default_rng(0)
    drawn = generator.multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
    totals = drawn @ table
    kept = totals[(totals > 0).all(1)]  # a sample of one-token answers alone has no speed
    low, high = np.percentile(_ratio(kept), PERCENTILES)
    return float(low), float(high)


def _or_none(reduce: Callable[[list[float]], float], values: Sequence[float]) -> float | None:
    return float(reduce(list(values))) if values else None
