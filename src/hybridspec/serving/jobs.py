"""One request under way: its answers, one turn each, and what its response says of them."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from hybridspec import __version__
from hybridspec.core import Generation
from hybridspec.engine import Engine
from hybridspec.serving.facts import Facts
from hybridspec.serving.protocol import Request
from hybridspec.serving.turns import Answer, Ask, Call, Function, Progress, Turn
from hybridspec.serving.usage import Usage
from hybridspec.serving.worker import Worker

T = TypeVar("T")
FINGERPRINT = f"hybridspec-{__version__}"


class Job:
    """A request that was accepted. Its first answer stands in line from the beginning.

    Attributes:
        asks: its answers in order.
        usage: tokens so far.
        ended: whether the last answer was ended before its time.
    """

    def __init__(
        self,
        worker: Worker,
        request: Request,
        client: str,
        asks: Sequence[Ask],
        name: str,
        *,
        answers: bool = True,
    ) -> None:
        """Take a place in the line.

        Args:
            worker: who owns the engine.
            request: as it came.
            client: who asks.
            asks: the answers, those to the same prompt one after the other.
            name: what to call the model.
            answers: False where nothing is to be answered, only something else asked.

        Raises:
            ApiError: the line is full.
        """
        self.asks, self.usage = asks, Usage()
        self._worker, self._request, self._client, self._name = worker, request, client, name
        self._created, self._id = int(time.time()), secrets.token_hex(12)
        self._generations: list[Generation] = []
        self._queue_seconds = 0.0
        self._turns: list[Turn[Any]] = []
        self.ended = False
        self._first = self._submit(0) if answers else None

    def _submit(self, index: int) -> Answer:
        answer = Answer(self._client, self.asks[index])
        self._turns = [self._worker.submit(answer, again=index > 0)]
        return answer

    async def call(self, function: Function[T]) -> T:
        """What a function of the engine gives, when its turn comes."""
        turn = self._worker.submit(Call(self._client, function), again=True)
        self._turns.append(turn)
        return await turn.result

    def count_prompt(self, index: int) -> None:
        """Count the prompt of answer `index`, once for all answers to it."""
        if index == 0 or self.asks[index].ids is not self.asks[index - 1].ids:
            self.usage.prompt += len(self.asks[index].ids)

    async def progress(self, index: int) -> AsyncIterator[Progress]:
        """The pieces of answer `index`; answers are taken in order."""
        answer = self._first if index == 0 and self._first is not None else self._submit(index)
        self.count_prompt(index)
        self.ended = False
        async for progress in answer:
            if not self.ended:  # else the engine has not heard of it yet
                self.usage.completion += len(progress.piece.token_ids)
                yield progress
        assert answer.generation is not None
        self._generations.append(answer.generation)
        self.usage.cached += answer.generation.stats.cached_tokens
        self._queue_seconds += answer.queue_seconds

    def end(self, dropped: int) -> None:
        """The answer under way ends here, without the last `dropped` tokens that came."""
        self.usage.completion -= dropped
        self.ended = True
        self.close()

    @property
    def engine(self) -> Engine:
        """Who answers."""
        return self._worker.engine

    @property
    def generation(self) -> Generation:
        """The answer that has just ended."""
        return self._generations[-1]

    def close(self) -> None:
        """Nobody waits any more; harmless when all is done."""
        for turn in self._turns:
            self._worker.give_up(turn)

    def document(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """A response, or one event of it.

        Args:
            kind: OpenAI's name of the object.
            choices: of the response.
            more: fields beside them.
        """
        prefix = "chatcmpl" if kind.startswith("chat") else "cmpl"
        return {
            "id": f"{prefix}-{self._id}",
            "object": kind,
            "created": self._created,
            "model": self._name,
            "system_fingerprint": FINGERPRINT,
            "choices": choices,
            **more,
        }

    def event(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """One event of a stream, with the usage that the request asked for."""
        options = self._request.stream_options
        if options is not None and options.continuous_usage_stats:
            more = {"usage": self.usage.document(), **more}
        elif options is not None and options.include_usage:
            more = {"usage": None, **more}
        return self.document(kind, choices, **more)

    @property
    def reports_usage(self) -> bool:
        """Whether a stream ends with an event that has no choices but the usage."""
        options = self._request.stream_options
        return options is not None and bool(options.include_usage)

    def facts(self) -> dict[str, Any]:
        """What drafting did, once all answers are there."""
        drafter = self.engine.drafter
        return Facts(
            self._generations,
            0 if drafter is None else drafter.config.block_size - 1,
            self._queue_seconds,
            bool(self._request.return_spec_tokens_details),
        ).document()
