"""POST /v1/chat/completions: a conversation in, the assistant's next message out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from hybridspec.serving.chat_plan import ChatPlan
from hybridspec.serving.errors import shutting_down
from hybridspec.serving.jobs import Job
from hybridspec.serving.one_call import OneCall
from hybridspec.serving.protocol import ChatRequest
from hybridspec.serving.reading import Message, Reader, Said
from hybridspec.serving.tokens import chat_logprobs, round_document
from hybridspec.serving.turns import Progress
from hybridspec.stream import Piece
from hybridspec.text.reasoning import ReasoningCounter
from hybridspec.text.tokenizer import Tokenizer

KIND, CHUNK = "chat.completion", "chat.completion.chunk"


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat completion under way.

    Attributes:
        request: as it came.
        plan: what was made of it.
        job: its answers.
    """

    request: ChatRequest
    plan: ChatPlan
    job: Job
    tokenizer: Tokenizer

    async def whole(self) -> dict[str, Any]:
        """The response in one."""
        choices = []
        for index in range(len(self.job.asks)):
            message, reader, pieces = Message(), self.plan.reader(), []
            async for said, progress in self._parts(index, reader):
                message.add(said)
                pieces += [] if progress is None else [progress.piece]
            choices.append(self._choice(index, message, self._finish(reader.called), pieces))
        more = {"usage": self.job.usage.document(), **self._prompt(), **self.job.facts()}
        return self.job.document(KIND, choices, **more)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The response piece by piece."""
        last = len(self.job.asks) - 1
        for index in range(last + 1):
            role = {"role": "assistant", "content": ""}
            reader, began = self.plan.reader(), False
            async for said, progress in self._parts(index, reader):
                if not began:
                    yield self._event(index, role, **self._prompt())
                began = True
                if (said != Said()) or self._shows(progress):
                    yield self._event(index, said.document(), progress)
            finish = self._finish(reader.called)
            facts = self.job.facts() if index == last and not self.job.reports_usage else {}
            yield self.job.event(CHUNK, [_delta(index, {}, finish_reason=finish)], **facts)
        if self.job.reports_usage:
            usage = {"usage": self.job.usage.document()}
            yield self.job.document(CHUNK, [], **usage, **self.job.facts())

    async def _parts(
        self, index: int, reader: Reader
    ) -> AsyncIterator[tuple[Said, Progress | None]]:
        """What each round says, and at last what was held back."""
        usage = self.job.usage
        thoughts = ReasoningCounter(self.tokenizer.token_bytes, self.plan.thought)
        before, one = usage.reasoning, None
        if self.request.parallel_tool_calls is False and self.plan.tools:
            one = OneCall(self.job.engine, self.job.asks[index], reader)
        async for progress in self.job.progress(index):
            said, kept = one.push(progress) if one else (reader.push(progress.piece.text), progress)
            if one is not None and one.over:
                self.job.end(len(progress.piece.token_ids) - len(kept.piece.token_ids))
            thoughts.push(kept.piece.token_ids)
            usage.reasoning = before + thoughts.count
            yield said, kept
        if not self.job.ended:
            reason = self.job.generation.finish_reason
            yield one.finish(limited=reason == "length") if one else reader.finish(), None
            if reason == "abort":
                raise shutting_down()

    def _finish(self, called: bool) -> str:
        reason = self.job.generation.finish_reason
        return "tool_calls" if self.job.ended or (called and reason != "length") else reason

    def _shows(self, progress: Progress | None) -> bool:
        """Whether a piece without text has an event all the same."""
        if progress is None:
            return False
        request, options = self.request, self.request.stream_options
        continuous = options is not None and options.continuous_usage_stats
        asked = request.logprobs or request.return_token_ids or request.return_rounds or continuous
        return bool(asked)

    def _event(
        self, index: int, delta: dict[str, Any], progress: Progress | None = None, **more: Any
    ) -> dict[str, Any]:
        choice = _delta(index, delta)
        if progress is not None and self.request.logprobs:
            choice["logprobs"] = chat_logprobs(self.tokenizer, progress.piece.logprobs)
        if progress is not None and self.request.return_token_ids:
            choice["token_ids"] = list(progress.piece.token_ids)
        if progress is not None and self.request.return_rounds:
            more["hybridspec"] = {"round": round_document(self.tokenizer, progress)}
        return self.job.event(CHUNK, [choice], **more)

    def _choice(
        self, index: int, message: Message, finish: str, pieces: Sequence[Piece]
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "message": message.document(),
            "logprobs": None,
            "finish_reason": finish,
        }
        if self.request.logprobs:
            entries = [entry for piece in pieces for entry in piece.logprobs]
            choice["logprobs"] = chat_logprobs(self.tokenizer, entries)
        if self.request.return_token_ids:
            choice["token_ids"] = [token for piece in pieces for token in piece.token_ids]
        return choice

    def _prompt(self) -> dict[str, Any]:
        if not self.request.return_token_ids:
            return {}
        return {"prompt_token_ids": self.plan.ids}


def _delta(index: int, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
