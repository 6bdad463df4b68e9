"""Tokens as clients read them: their texts, log-probabilities, and the rounds that gave them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hybridspec.serving.turns import Progress
from hybridspec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from hybridspec.core import TokenLogprobs

LEAST = -9999.0  # JSON has no infinity


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """A token's text; special tokens by their names, parts of characters as their bytes."""
    data = tokenizer.token_bytes(token)
    if not data:
        return tokenizer.decode([token], skip_special_tokens=False)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)


def chat_logprobs(tokenizer: Tokenizer, entries: Iterable[TokenLogprobs]) -> dict[str, Any]:
    """A chat choice's `logprobs`."""
    content = [
        {
            **_entry(tokenizer, entry.token_id, entry.logprob),
            "top_logprobs": [_entry(tokenizer, *likely) for likely in entry.top],
        }
        for entry in entries
    ]
    return {"content": content, "refusal": None}


def completion_logprobs(
    tokenizer: Tokenizer,
    ids: Sequence[int],
    entries: Sequence[TokenLogprobs | None],
    offsets: Sequence[int],
) -> dict[str, Any]:
    """A completion choice's `logprobs`.

    Args:
        tokenizer: for the texts.
        ids: the tokens.
        entries: one a token; None for the first of a prompt.
        offsets: where each token begins in the choice's text.
    """
    return {
        "tokens": [token_text(tokenizer, token) for token in ids],
        "token_logprobs": [None if e is None else _finite(e.logprob) for e in entries],
        "top_logprobs": [None if e is None else _likely(tokenizer, e) for e in entries],
        "text_offset": list(offsets),
    }


class Offsets:
    """Where tokens begin in a text, in pieces of any size: the parts of a character all at it."""

    def __init__(self, tokenizer: Tokenizer, start: int = 0, *, named: bool = False) -> None:
        """Begin a text.

        Args:
            tokenizer: of the tokens.
            start: characters before it.
            named: whether it has special tokens by their names, as an echoed prompt.
        """
        self._tokenizer, self._place, self._named = tokenizer, start, named
        self._reader = tokenizer.detokenizer()

    def of(self, ids: Iterable[int]) -> list[int]:
        """Those of the next tokens."""
        return [self._next(token) for token in ids]

    def _next(self, token: int) -> int:
        if self._named and not self._tokenizer.token_bytes(token):
            begun = self._place + len(self._reader.flush())  # a character that stays half
            self._place = begun + len(token_text(self._tokenizer, token))
            return begun
        begun = self._place
        self._place += len(self._reader.push([token]))
        return begun


def round_document(tokenizer: Tokenizer, progress: Progress) -> dict[str, Any]:
    """A round token by token: what was drafted, how much of it verified and accepted, what came.

    The first `accepted` of `tokens` are drafts; the one after them is the target's own. Drafts from
    `w` on were not verified. The token after the prompt comes of no round: w is 0.
    """
    facts, emitted = progress.round, progress.piece.token_ids
    drafts = [] if facts is None or facts.drafts is None else facts.drafts.tolist()
    return {
        "w": 0 if facts is None else facts.w,
        "w0": 0 if facts is None else facts.w0,
        "accepted": 0 if facts is None else facts.accepted,
        "ms": 1000 * progress.seconds,
        "tokens": [_shown(tokenizer, token) for token in emitted],
        "drafts": [_shown(tokenizer, token) for token in drafts],
    }


def _shown(tokenizer: Tokenizer, token: int) -> dict[str, Any]:
    return {"id": token, "text": token_text(tokenizer, token)}


def _entry(tokenizer: Tokenizer, token: int, logprob: float) -> dict[str, Any]:
    text = token_text(tokenizer, token)
    data = tokenizer.token_bytes(token) or text.encode()
    return {"token": text, "logprob": _finite(logprob), "bytes": list(data)}


def _likely(tokenizer: Tokenizer, entry: TokenLogprobs) -> dict[str, float]:
    return {token_text(tokenizer, token): _finite(value) for token, value in entry.top}


def _finite(logprob: float) -> float:
    return logprob if logprob > LEAST else LEAST  # neither what is no number
