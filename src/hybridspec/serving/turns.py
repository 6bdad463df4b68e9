"""What the engine is asked to do, one turn at a time: given by a coroutine, done by the worker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from hybridspec.core import Generation, RoundStats, SamplingParams
from hybridspec.engine import Engine
from hybridspec.serving.metrics import Metrics
from hybridspec.stream import Piece, Stream

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One answer that is asked for.

    Attributes:
        ids: the prompt.
        params: sampling and limits.
        options: further arguments of `Engine.stream`.
    """

    ids: list[int]
    params: SamplingParams
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Progress:
    """A piece of an answer as it came.

    Attributes:
        round: figures of the round that gave it; None for the token after the prompt and for text
            without tokens.
        seconds: what that took.
    """

    piece: Piece
    round: RoundStats | None
    seconds: float


class Turn(ABC, Generic[T]):
    """A turn of the engine. Made inside the event loop of the coroutine that waits for it."""

    def __init__(self, client: str) -> None:
        """client: who asks."""
        self.client = client
        self.asked = time.perf_counter()
        self._loop = asyncio.get_running_loop()
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for it any more."""
        return self._cancelled

    def cancel(self) -> None:
        """Nobody waits any more: the engine is free within a round."""
        self._cancelled = True

    @abstractmethod
    def run(self, engine: Engine, metrics: Metrics) -> T:
        """Do it, on the worker's thread."""

    @abstractmethod
    def succeed(self, outcome: T) -> None:
        """Tell the coroutine what came of it; from any thread, once the engine is at rest."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Tell the coroutine that it failed; from any thread."""

    def _tell(self, function: Callable[[Any], None], value: Any) -> None:
        """Call a function in the loop; where that is over, there is nobody to tell."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, value)


Function = Callable[[Engine, Callable[[], bool]], T]
"""What is to be done with the engine; it is also given what tells whether it is still wanted."""


class Call(Turn[T]):
    """A function of the engine, such as the scores of a prompt; await `result`."""

    def __init__(self, client: str, function: Function[T]) -> None:
        super().__init__(client)
        self._function = function
        self.result: asyncio.Future[T] = self._loop.create_future()

    def run(self, engine: Engine, metrics: Metrics) -> T:
        """Call it."""
        return self._function(engine, lambda: not self._cancelled)

    def succeed(self, outcome: T) -> None:
        """The awaited result is there."""
        self._tell(self._settle, outcome)

    def fail(self, error: BaseException) -> None:
        """The awaited result raises it."""
        self._tell(self._refuse, error)

    def _settle(self, value: T) -> None:
        if not self.result.done():
            self.result.set_result(value)

    def _refuse(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)


class Answer(Turn[Generation]):
    """One answer; iterate over it for its pieces.

    Attributes:
        generation: the whole answer, once the iteration has ended.
        queue_seconds: how long it waited.
    """

    def __init__(self, client: str, ask: Ask) -> None:
        super().__init__(client)
        self._ask = ask
        self._news: asyncio.Queue[Progress | Generation | BaseException] = asyncio.Queue()
        self._stream: Stream | None = None
        self._begun = False
        self.generation: Generation | None = None
        self.queue_seconds = 0.0

    def cancel(self) -> None:
        """As of every turn. A prompt that is being read ends with the part that is read now."""
        super().cancel()
        if self._stream is not None:
            self._stream.end_soon()

    def run(self, engine: Engine, metrics: Metrics) -> Generation:
        """Decode it, and tell every piece."""
        self.queue_seconds = time.perf_counter() - self.asked
        stream = engine.stream(self._ask.ids, self._ask.params, **self._ask.options)
        self._stream = stream
        if self._cancelled:  # before there was a stream to end
            stream.end_soon()
        metrics.began(self.queue_seconds)
        try:
            self._follow(stream, metrics)
        finally:
            stream.close()
            generation = stream.result()
            metrics.ended(generation, time.perf_counter() - self.asked)
        return generation

    def succeed(self, outcome: Generation) -> None:
        """The iteration ends."""
        self._tell(self._news.put_nowait, outcome)

    def _follow(self, stream: Stream, metrics: Metrics) -> None:
        began = time.perf_counter()
        for piece in stream:
            now = time.perf_counter()
            # What ends a cut answer has no tokens and is of no round.
            made = stream.last_round if piece.token_ids else None
            progress = Progress(piece, made, now - began)
            if not self._begun and piece.token_ids:
                metrics.first_token(now - self.asked)
            self._begun, began = True, now
            metrics.progress(progress.round, len(piece.token_ids), progress.seconds)
            self._tell(self._news.put_nowait, progress)

    def fail(self, error: BaseException) -> None:
        """The iteration raises it."""
        self._tell(self._news.put_nowait, error)

    async def __aiter__(self) -> AsyncIterator[Progress]:
        """The pieces. Raises what the engine raised."""
        while True:
            news = await self._news.get()
            if isinstance(news, BaseException):
                raise news
            if isinstance(news, Generation):
                self.generation = news
                return
            yield news
