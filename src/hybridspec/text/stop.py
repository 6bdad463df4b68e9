"""The one stop rule. Every caller that turns tokens into an answer goes through it.

Tokens are taken one at a time, in order, however many arrive together. The questions at each token
are, in this order: is it a stop id, does it complete a stop string, is it the last one allowed? So
the first reason in token order wins, and at one token `stop` beats `length`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hybridspec.core import FinishReason, SamplingParams
from hybridspec.errors import RequestError
from hybridspec.text.detokenize import Detokenizer


@dataclass(frozen=True, slots=True)
class Emission:
    """What a push lets out.

    Attributes:
        kept: how many of the pushed tokens belong to the answer; the caller commits this prefix.
        text: text that is now certain. It may lag behind the tokens.
        finish_reason: None while the answer goes on.
    """

    kept: int
    text: str
    finish_reason: FinishReason | None = None


class OutputStream:
    """One answer: takes tokens in blocks, gives text and the reason to stop.

    A stop id is kept but has no text. A stop string is not in the text, and what follows it is not
    either; the token that completes it is kept. Text that may begin a stop string is held back
    until that is decided, and so is half a character. When the answer ends, what was held back is
    let out, with an unfinished character as U+FFFD; a stop string is looked for in that too.
    """

    def __init__(
        self,
        detokenizer: Detokenizer | None,
        params: SamplingParams,
        eos_ids: Collection[int],
        max_tokens: int,
    ) -> None:
        """Start an answer.

        Args:
            detokenizer: a fresh one; None gives tokens without text.
            params: its stop strings, stop ids and `ignore_eos` hold here.
            eos_ids: the model's own stop ids, of its generation config and its tokenizer.
            max_tokens: most tokens to keep, at least 1: the request's limit or what the context
                leaves, whichever is less.

        Raises:
            RequestError: stop strings without a detokenizer, or a limit below 1.
        """
        if params.stop and detokenizer is None:
            raise RequestError("Stop strings need a tokenizer; use stop_token_ids instead.")
        if max_tokens < 1:
            raise RequestError(f"The answer may have {max_tokens} tokens; expected at least 1.")
        own = () if params.ignore_eos else eos_ids
        self._stop_ids = frozenset(own) | frozenset(params.stop_token_ids)
        self._detokenizer = detokenizer
        self._strings = _StopStrings(params.stop)
        self._left = max_tokens
        self._finished: FinishReason | None = None

    @property
    def stop_ids(self) -> frozenset[int]:
        """The token ids that end this answer."""
        return self._stop_ids

    def push(self, tokens: Sequence[int]) -> Emission:
        """Take tokens up to the one that ends the answer; a finished answer takes none."""
        pieces: list[str] = []
        kept = 0
        for token in tokens:
            if self._finished is not None:
                break
            kept += 1
            pieces.append(self._take(token))
        return Emission(kept, "".join(pieces), self._finished)

    def finish(self) -> Emission:
        """End an answer from outside (an interrupt); lets out what was held back.

        The reason is the one already found, else `abort`.
        """
        text = "" if self._finished is not None else self._end("abort")
        return Emission(0, text, self._finished)

    def _take(self, token: int) -> str:
        self._left -= 1
        if token in self._stop_ids:
            return self._end("stop")
        text = self._read(self._detokenizer.push((token,)) if self._detokenizer else "")
        if self._finished is None and self._left == 0:
            text += self._end("length")
        return text

    def _read(self, piece: str) -> str:
        text, found = self._strings.push(piece)
        if found:
            self._finished = "stop"
        return text

    def _end(self, reason: FinishReason) -> str:
        text = self._read(self._detokenizer.flush() if self._detokenizer else "")
        if self._finished is not None:
            return text
        self._finished = reason
        return text + self._strings.release()


class _StopStrings:
    """Looks for stop strings in text that arrives in pieces."""

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """Text that is certain, and whether a stop string follows it.

        Of several stop strings in the held text and the piece, the one that begins first counts.
        """
        text = self._held + piece
        found = [at for string in self._strings if (at := text.find(string)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)], True
        certain = len(text) - max((overlap(text, string) for string in self._strings), default=0)
        self._held = text[certain:]
        return text[:certain], False

    def release(self) -> str:
        """What was held back."""
        held, self._held = self._held, ""
        return held


def overlap(text: str, string: str) -> int:
    """The length of the longest end of `text` that begins `string` without completing it."""
    longest = min(len(string) - 1, len(text))
    return next((n for n in range(longest, 0, -1) if text.endswith(string[:n])), 0)
