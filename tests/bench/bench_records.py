"""Records with round figures, so that sums can be done by hand."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.bench.records import Key, Record, TimedRound


def record(
    prompt: str = "a",
    system: str = "ar",
    repeat: int = 0,
    *,
    tokens: Sequence[int] = (7, 8, 9),
    seconds: float = 1.0,
    rounds: Sequence[tuple[int, int]] = ((1, 0), (1, 0)),
    category: str = "math",
    finish: str = "length",
    prefill: float = 0.5,
    turn: int = 0,
) -> Record:
    """A record whose rounds, given as (w, A), share the seconds; all their drafts are verified."""
    each = seconds / max(1, len(rounds))
    return Record(
        key=Key(repeat, prompt, system, turn),
        category=category,
        prompt_tokens=10,
        token_ids=tuple(tokens),
        finish_reason=finish,
        prefill_seconds=prefill,
        decode_seconds=seconds,
        rounds=tuple(TimedRound(w, a, a + 1, each, w - 1, 0, 0) for w, a in rounds),
    )


def by_key(*records: Record) -> dict[Key, Record]:
    return {r.key: r for r in records}
