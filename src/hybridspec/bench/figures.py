"""Figures from records: speeds, acceptance, lengths, round times.

Counting: w counts target inputs, the anchor included; A counts accepted drafts; a round emits A + 1
tokens, which is the acceptance length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hybridspec.bench.records import Record
from hybridspec.bench.speeds import Speedup, Spread, speedup, throughput


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
        round_seconds: decode seconds over rounds, the paper's time per round.
        mean_verification_length: mean w.
        drafts_per_round: mean number of drafts proposed.
        unverified_per_round: mean number of those that were not verified.
        judged, missed: unverified drafts whose place the answers reach, and those of them that
            would have been accepted (`drafts.py`).
        missed_share: missed over judged; None where none was judged.
        acceptance_histogram: rounds by A, 0 to block size - 1.
        verification_length_histogram: rounds by w, 0 to block size.
        finish_reasons: answers by how they ended.
        prefill_seconds: median.
        prompt_tokens: over distinct prompts and turns.
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
    round_seconds: float | None
    mean_acceptance_length: float | None
    mean_verification_length: float | None
    drafts_per_round: float | None
    unverified_per_round: float | None
    judged: int
    missed: int
    missed_share: float | None
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
    asked = {(r.key.prompt, r.key.turn): r.prompt_tokens for r in records}
    seconds = sum(r.decode_seconds for r in records)
    judged, missed = sum(r.judged for r in rounds), sum(r.missed for r in rounds)
    return Figures(
        generations=len(records),
        tokens=sum(len(r.token_ids) for r in records),
        decode_tokens=sum(r.decode_tokens for r in records),
        decode_seconds=seconds,
        tokens_per_second=throughput(records),
        speedup=speedup(records, baseline),
        rounds=len(rounds),
        seconds_per_round=_or_none(median, [r.seconds for r in rounds]),
        mean_seconds_per_round=_or_none(np.mean, [r.seconds for r in rounds]),
        round_seconds=seconds / len(rounds) if rounds else None,
        mean_acceptance_length=_or_none(np.mean, [r.accepted + 1 for r in rounds]),
        mean_verification_length=_or_none(np.mean, [r.w for r in rounds]),
        drafts_per_round=_or_none(np.mean, [r.proposed for r in rounds]),
        unverified_per_round=_or_none(np.mean, [r.unverified for r in rounds]),
        judged=judged,
        missed=missed,
        missed_share=missed / judged if judged else None,
        acceptance_histogram=histogram((r.accepted for r in rounds), block_size),
        verification_length_histogram=histogram((r.w for r in rounds), block_size + 1),
        finish_reasons=dict(Counter(r.finish_reason for r in records)),
        prefill_seconds=median(r.prefill_seconds for r in records),
        prompt_tokens=sum(asked.values()),
    )


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


def _or_none(reduce: Callable[[list[float]], float], values: Sequence[float]) -> float | None:
    return float(reduce(list(values))) if values else None
