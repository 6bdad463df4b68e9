"""What one measured generation leaves behind, as a dataclass and as a line of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

FORMAT = 2  # of the journal's lines: part of the set-up, so that no two are mixed


class Key(NamedTuple):
    """Which generation it is; each is measured once. Turns count from 0."""

    repeat: int
    prompt: str
    system: str
    turn: int = 0


class TimedRound(NamedTuple):
    """One round: w inputs verified, A drafts accepted, m tokens kept, and its seconds.

    Attributes:
        proposed: M, the drafts that the drafter gave; w - 1 of them were verified.
        judged: unverified drafts whose place the rest of the answer reaches.
        missed: those of them that would have been accepted; see `drafts.py`.
    """

    w: int
    accepted: int
    committed: int
    seconds: float
    proposed: int
    judged: int
    missed: int

    @property
    def unverified(self) -> int:
        """Drafts that were proposed and not verified."""
        return self.proposed - (self.w - 1)

    @classmethod
    def from_json(cls, row: Sequence[Any]) -> Self:
        """The round of a JSON array; TypeError or ValueError for another shape."""
        w, accepted, committed, seconds, *drafts = row
        proposed, judged, missed = map(int, drafts)
        return cls(int(w), int(accepted), int(committed), float(seconds), proposed, judged, missed)


@dataclass(frozen=True, slots=True)
class Record:
    """One generation.

    Attributes:
        key: repeat, prompt id, system and turn.
        category: the prompt's.
        prompt_tokens: length of the prompt, with chat template and earlier turns.
        token_ids: the answer.
        finish_reason: `stop` or `length`.
        prefill_seconds: prompt to first token.
        decode_seconds: first token to last.
        rounds: one entry a round; none when the first token was the last.
    """

    key: Key
    category: str
    prompt_tokens: int
    token_ids: tuple[int, ...]
    finish_reason: str
    prefill_seconds: float
    decode_seconds: float
    rounds: tuple[TimedRound, ...]

    @property
    def decode_tokens(self) -> int:
        """Tokens after the first: those that `decode_seconds` took."""
        return len(self.token_ids) - 1

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `from_json` reads it back unchanged."""
        return {
            **self.key._asdict(),
            "category": self.category,
            "prompt_tokens": self.prompt_tokens,
            "token_ids": list(self.token_ids),
            "finish_reason": self.finish_reason,
            "prefill_seconds": self.prefill_seconds,
            "decode_seconds": self.decode_seconds,
            "rounds": [list(r) for r in self.rounds],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Self:
        """The record of a JSON object; an error of `journal.DAMAGE` for another shape."""
        return cls(
            key=Key(int(row["repeat"]), str(row["prompt"]), str(row["system"]), int(row["turn"])),
            category=str(row["category"]),
            prompt_tokens=int(row["prompt_tokens"]),
            token_ids=tuple(int(i) for i in row["token_ids"]),
            finish_reason=str(row["finish_reason"]),
            prefill_seconds=float(row["prefill_seconds"]),
            decode_seconds=float(row["decode_seconds"]),
            rounds=tuple(TimedRound.from_json(r) for r in row["rounds"]),
        )
