"""What `/stats` says of the last answer and of the whole chat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hybridspec.cli.report import statistics_line
from hybridspec.core import Generation


class Figures:
    """The answers of a chat, for their figures."""

    def __init__(self) -> None:
        self._answers: list[Generation] = []

    def add(self, answer: Generation) -> None:
        """Counts an answer."""
        self._answers.append(answer)

    def lines(self) -> Iterator[str]:
        """Lines for people."""
        if not self._answers:
            yield "No answer yet."
            return
        last = self._answers[-1]
        stats = last.stats
        yield f"Last answer: {statistics_line(last)}."
        yield f"  w, the target inputs of a round: {_lengths(last)}."
        kept = f"{stats.cached_tokens} of them kept from before"
        yield f"  prompt: {last.prompt_tokens} tokens, {kept}; {stats.prefill_seconds:.2f} s."
        yield self._all()

    def _all(self) -> str:
        tokens = sum(len(answer.token_ids) for answer in self._answers)
        decoded = sum(max(len(answer.token_ids) - 1, 0) for answer in self._answers)
        seconds = sum(answer.stats.decode_seconds for answer in self._answers)
        rounds = sum(len(answer.stats.rounds) for answer in self._answers)
        accepted = sum(answer.stats.accepted for answer in self._answers)
        speed = f", {decoded / seconds:.1f} tok/s" if decoded and seconds else ""
        length = f", mean acceptance length {accepted / rounds + 1:.2f}" if rounds else ""
        answers = "1 answer" if len(self._answers) == 1 else f"{len(self._answers)} answers"
        return f"This chat: {answers}, {tokens} tokens{speed}{length}."


def _lengths(answer: Generation) -> str:
    """How many rounds had each length."""
    counts = Counter(entry.w for entry in answer.stats.rounds)
    return ", ".join(f"{w} ({n} times)" for w, n in sorted(counts.items())) or "no round"
