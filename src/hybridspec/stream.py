"""One answer under way: prompt tokens in, pieces of text out, statistics at the end."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ParamSpec

import torch

from hybridspec.core import PREFILL_CHUNK as PREFILL_CHUNK  # others know it from here
from hybridspec.core import (
    FinishReason,
    Generation,
    GenerationStats,
    RoundStats,
    TokenLogprobs,
)
from hybridspec.errors import RequestError
from hybridspec.runtime import check
from hybridspec.runtime.prefix.reuse import Reuse
from hybridspec.runtime.round import Rounds, Sequence
from hybridspec.text.stop import Emission, OutputStream

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Piece:
    """What one round adds to an answer. `text` may lag behind `token_ids`, never the reverse.

    `logprobs` has an entry for each of `token_ids`, or none where the request asked for none.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()


class Stream:
    """Iterate for pieces; `result()` gives the answer so far, `close()` ends it early.

    One thread iterates; `close()` may come from any other. The end of the answer, `close()`, an
    exception and dropping the stream all free the engine.
    """

    def __init__(
        self,
        rounds: Rounds,
        sequence: Sequence,
        prompt: list[int],
        output: OutputStream,
        max_tokens: int,
        reuse: Reuse,
    ) -> None:
        self._rounds, self._sequence, self._output = rounds, sequence, output
        self._prompt, self._max_tokens, self._reuse = prompt, max_tokens, reuse
        self._pieces: list[str] = []
        self._tokens: list[int] = []
        self._logprobs: list[TokenLogprobs] = []
        self._stats: list[RoundStats] = []
        self._finish: FinishReason | None = None
        self._prefill_seconds = self._decode_seconds = 0.0
        self._lock = threading.Lock()
        self._owner: int | None = None  # the thread inside a step
        self._closing = False

    @property
    def finished(self) -> bool:
        """Whether the answer has ended; the engine is free again."""
        return self._finish is not None

    @property
    def last_round(self) -> RoundStats | None:
        """Figures of the round that gave the latest piece; None for the token after the prompt."""
        return self._stats[-1] if self._stats else None

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        if self.finished:
            raise StopIteration
        if not self._lock.acquire(blocking=False):
            if self._closing:
                raise StopIteration
            raise RequestError("Another thread is in the middle of this stream; iterate it in one.")
        self._owner = threading.get_ident()
        try:
            if self._closing:
                return self._end()
            piece = self._round() if self._tokens else self._first()
            if self.finished and check.enabled():
                self._check()
            return self._ended(piece) if self._closing else piece
        except BaseException:  # an interrupt may leave the slot half committed: it ends the answer
            self._finish = self._finish or "abort"
            raise
        finally:
            self._owner = None
            self._lock.release()

    def close(self) -> Piece:
        """End the answer and let out the text held back. Harmless when it has ended.

        While another thread is inside a round, it waits for that to end: until then the engine's
        memory is in use. Called inside a round (by a signal handler), it leaves the end to it.
        """
        self._closing = True
        if self._owner == threading.get_ident():
            return Piece("", ())
        with self._lock:
            return self._end()

    def end_soon(self) -> None:
        """Have the thread that iterates end the answer, after the round or the part of the prompt
        that it is in. From any thread; it does not wait."""
        self._closing = True

    def _ended(self, piece: Piece) -> Piece:
        """The last piece, with the text that was held back."""
        return replace(piece, text=piece.text + self._end().text)

    def _end(self) -> Piece:
        if self.finished:
            return Piece("", ())
        try:
            self._rounds.halt()
        finally:  # also where the device has failed: the answer is over
            emission = self._output.finish()
            self._finish = emission.finish_reason
        self._pieces.append(emission.text)
        return Piece(emission.text, ())

    def result(self) -> Generation:
        """The answer so far; whole once the iteration has ended."""
        sampled = None if self._sequence.params.greedy else self._sequence.seed
        return Generation(
            text="".join(self._pieces),
            token_ids=tuple(self._tokens),
            finish_reason=self._finish or "abort",
            prompt_tokens=len(self._prompt),
            system=self._rounds.system.name,
            stats=GenerationStats(
                tuple(self._stats),
                self._prefill_seconds,
                self._decode_seconds,
                sampled,
                self._reuse.cached,
            ),
            logprobs=tuple(self._logprobs),
        )

    @torch.inference_mode()
    def _first(self) -> Piece:
        """The prompt, and the token after it."""
        began = time.perf_counter()
        self._rounds.begin()
        target = self._rounds.target
        ids = torch.tensor(self._prompt, device=target.device)
        for part in self._reuse.parts(self._rounds, self._sequence, self._prompt):
            if self._closing:
                return Piece("", ())
            out = self._rounds.prefill(self._sequence, ids[part])
        token = self._rounds.first_token(self._sequence, out)
        self._prefill_seconds = time.perf_counter() - began
        return self._emit(self._output.push([token]), (token,))

    @torch.inference_mode()
    def _round(self) -> Piece:
        began = time.perf_counter()
        remaining = self._max_tokens - len(self._tokens)
        emission, tokens, stats = self._rounds.run(self._sequence, self._output, remaining)
        self._stats.append(stats)
        self._decode_seconds += time.perf_counter() - began
        return self._emit(emission, tokens)

    def _emit(self, emission: Emission, kept: tuple[int, ...]) -> Piece:
        self._tokens += kept
        self._logprobs += self._rounds.logprobs
        self._pieces.append(emission.text)
        self._finish = emission.finish_reason
        if self.finished:
            self._reuse.ended(self._rounds, self._sequence, self._prompt + self._tokens)
        return Piece(emission.text, kept, self._rounds.logprobs)

    @torch.inference_mode()
    def _check(self) -> None:
        tokens = (self._prompt + self._tokens)[:-1]
        device = self._rounds.target.device
        check.check_committed(
            self._rounds.target, self._sequence.slot, torch.tensor(tokens, device=device)
        )


def whole(start: Callable[P, Stream]) -> Callable[P, Generation]:
    """A function as `start`, with the same arguments, that gives the whole answer at once."""

    def generate(*args: P.args, **options: P.kwargs) -> Generation:
        """The whole answer at once; arguments as `stream`."""
        stream = start(*args, **options)
        for _ in stream:
            pass
        return stream.result()

    shown = inspect.signature(start).replace(return_annotation="Generation")
    generate.__signature__ = shown  # type: ignore[attr-defined]
    return generate
