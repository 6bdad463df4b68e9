"""What is said about an answer: the line of statistics and the JSON document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from hybridspec import __version__

if TYPE_CHECKING:
    from hybridspec.core import Generation, GenerationStats, RoundStats


def statistics_line(answer: Generation) -> str:
    """One line for people."""
    stats, rate = answer.stats, decode_rate(answer)
    facts = [
        f"{len(answer.token_ids)} tokens",
        "no decode speed" if rate is None else f"{rate:.1f} tok/s",
        f"{len(stats.rounds)} rounds",
        f"mean acceptance length {stats.mean_acceptance_length:.2f}",
        f"system {answer.system}",
        f"finish reason {answer.finish_reason}",
    ]
    if stats.seed is not None:
        facts.append(f"seed {stats.seed}")
    return ", ".join(facts)


def document(
    answer: Generation, *, block_size: int, model: str, draft: str | None
) -> dict[str, object]:
    """The answer for programs, as `--json` prints it.

    Args:
        answer: whole or interrupted. A round that a stop cuts counts with all it accepted.
        block_size: the drafter's, the anchor included; 1 without a drafter.
        model, draft: names of the target and of its drafter.
    """
    completion = len(answer.token_ids)
    return {
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "finish_reason": answer.finish_reason,
        **_logprobs(answer),
        "usage": {
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": completion,
            "total_tokens": answer.prompt_tokens + completion,
        },
        "stats": {"system": answer.system, **_figures(answer, block_size)},
        "model": model,
        "draft": draft,
        "version": __version__,
    }


def _logprobs(answer: Generation) -> dict[str, object]:
    """Of every token, natural logarithms; nothing where nobody asked."""
    return {"logprobs": [asdict(t) for t in answer.logprobs]} if answer.logprobs else {}


def decode_rate(answer: Generation) -> float | None:
    """Tokens after the first one by the seconds they took; None when there are none."""
    after_first, seconds = len(answer.token_ids) - 1, answer.stats.decode_seconds
    return after_first / seconds if after_first > 0 and seconds > 0 else None


def _figures(answer: Generation, block_size: int) -> dict[str, object]:
    stats: GenerationStats = answer.stats
    rounds = stats.rounds
    return {
        "seed": stats.seed,
        "rounds": len(rounds),
        "mean_acceptance_length": stats.mean_acceptance_length if rounds else None,
        "acceptance_histogram": histogram((r.accepted for r in rounds), block_size),
        "verification_length_histogram": histogram((r.w for r in rounds), block_size + 1),
        "accepted_draft_tokens": stats.accepted,
        "verified_draft_tokens": sum(r.w - 1 for r in rounds),
        "prefill_seconds": stats.prefill_seconds,
        "decode_seconds": stats.decode_seconds,
        "decode_tokens_per_second": decode_rate(answer),
        **_explained(rounds),
    }


def explanation(answer: Generation) -> Iterator[str]:
    """Lines for people: why each round had its length. None where nobody asked."""
    for number, r in enumerate(answer.stats.rounds, 1):
        why = r.explanation
        if why is None:
            continue
        new = "" if why.new_experts is None else f", the next input adds {why.new_experts} experts"
        yield f"round {number}: w0 {why.w0}, Stage 0 {why.u}{new}; w {r.w}, A {r.accepted}"
        if why.reason:
            yield f"  why        {why.reason}"
        rows = {
            "draft": range(1, len(why.confidence) + 1), "confidence": why.confidence,
            "p": why.prefix, "w": [*why.scores], "score": why.scores.values(),
        }  # fmt: skip
        for name, values in rows.items():
            if values:
                yield f"  {name:10s} " + " ".join(_cell(v) for v in values)


def _cell(value: float) -> str:
    return f"{value:6d}" if isinstance(value, int) else f"{value:6.2f}"


def _explained(rounds: tuple[RoundStats, ...]) -> dict[str, object]:
    """The explanations for programs; nothing where nobody asked."""
    every = [
        {**asdict(r.explanation), "w": r.w, "accepted": r.accepted}
        for r in rounds
        if r.explanation is not None
    ]
    return {"explain": every} if every else {}


def histogram(values: Iterable[int], length: int) -> list[int]:
    """How often each of 0..length-1 occurs."""
    counts = Counter(values)
    return [counts[value] for value in range(length)]
