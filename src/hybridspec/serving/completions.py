"""POST /v1/completions: text or token ids in, what follows them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hybridspec.engine import Engine
from hybridspec.serving.errors import ApiError, shutting_down
from hybridspec.serving.jobs import Job
from hybridspec.serving.prompts import encoded, tokenizer_of
from hybridspec.serving.protocol import CompletionRequest
from hybridspec.serving.sampling import choice, decoding, sampling
from hybridspec.serving.settings import Settings
from hybridspec.serving.tokens import Offsets, completion_logprobs, round_document
from hybridspec.serving.turns import Ask, Progress
from hybridspec.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from hybridspec.core import TokenLogprobs

KIND = "text_completion"
MAX_TOKENS = 16  # OpenAI's default here
MOST = 64  # answers of a request
MOST_ECHOED = (
    2**20
)  # log-probabilities of prompts in a response; 30 bytes each there, more in memory


@dataclass(frozen=True, slots=True)
class CompletionPlan:
    """A request as the engine takes it.

    Attributes:
        asks: its answers, those to one prompt together.
        prompts: the prompt of each as text, empty where it is not echoed.
        answers: False where the request asks for the prompts alone.
    """

    asks: list[Ask]
    prompts: list[str]
    answers: bool = True


def plan_completion(
    engine: Engine, settings: Settings, request: CompletionRequest
) -> CompletionPlan:
    """Make one of a request. As `plan_chat`, it is not for the event loop.

    Raises:
        ApiError: what cannot be served, by the parameter's name.
    """
    if len(request.prompt) * (request.n or 1) > MOST:
        said = f"n times the prompts is more than {MOST} answers; ask in several requests."
        raise ApiError(400, said, param="n", code="invalid_value")
    most = MAX_TOKENS if request.max_tokens is None else request.max_tokens
    answers = not (most == 0 and request.echo)
    params = sampling(request, engine, most if answers else 1, logprobs=request.logprobs)
    options = decoding(request, engine, settings)
    prompts = [encoded(engine, prompt, param="prompt") for prompt in request.prompt]
    _check_echoed(request, prompts)
    seeded = [choice(params, index) for index in range(request.n or 1)]
    asks = [Ask(ids, own, options) for ids in prompts for own in seeded]
    tokenizer = tokenizer_of(engine)
    texts = [tokenizer.decode(ask.ids, False) if request.echo else "" for ask in asks]
    return CompletionPlan(asks, texts, answers)


def _check_echoed(request: CompletionRequest, prompts: Sequence[Sequence[int]]) -> None:
    """Refuse more log-probabilities of prompts than a response should hold."""
    if not request.echo or request.logprobs is None:
        return
    count = sum(map(len, prompts)) * (request.n or 1) * (1 + request.logprobs)
    if count > MOST_ECHOED:
        said = f"The prompts would be echoed with {count:,} log-probabilities; expected at most "
        said += f"{MOST_ECHOED:,}. Ask for fewer answers, prompts or likely tokens at once."
        raise ApiError(400, said, param="logprobs", code="invalid_value")


@dataclass(frozen=True, slots=True)
class Part:
    """What is added to a choice: text, and tokens with their log-probabilities where asked for."""

    text: str
    ids: Sequence[int]
    logprobs: Sequence[TokenLogprobs | None] = ()
    progress: Progress | None = None


class Completion:
    """A completion under way."""

    def __init__(
        self, request: CompletionRequest, plan: CompletionPlan, job: Job, tokenizer: Tokenizer
    ) -> None:
        """Take a request, what was made of it, and its answers under way."""
        self._request, self._plan, self._job, self._tokenizer = request, plan, job, tokenizer
        self._scores: tuple[Sequence[int], Sequence[TokenLogprobs | None]] = ((), ())
        self._echoed: tuple[Sequence[int], dict[str, Any]] = ((), {})

    async def whole(self) -> dict[str, Any]:
        """The response in one."""
        choices = []
        for index in range(len(self._plan.asks)):
            parts = [part async for part in self._parts(index)]
            offsets = self._offsets(index)
            choices.append(self._choice(index, parts, offsets, self._finish))
        more = {"usage": self._job.usage.document(), **self._job.facts()}
        return self._job.document(KIND, choices, **more)

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The response piece by piece."""
        last = len(self._plan.asks) - 1
        for index in range(last + 1):
            offsets = self._offsets(index)
            async for part in self._parts(index):
                if part.text or self._shows_all:
                    yield self._event(self._choice(index, [part], offsets), part)
            facts = self._job.facts() if index == last and not self._job.reports_usage else {}
            yield self._job.event(KIND, [_bare(index, "", self._finish)], **facts)
        if self._job.reports_usage:
            usage = {"usage": self._job.usage.document()}
            yield self._job.document(KIND, [], **usage, **self._job.facts())

    async def _parts(self, index: int) -> AsyncIterator[Part]:
        """The prompt where it is echoed, then what each round gives."""
        ask = self._plan.asks[index]
        if self._request.echo:
            yield Part(self._plan.prompts[index], ask.ids, await self._scored(ask.ids))
        if not self._plan.answers:
            self._job.count_prompt(index)
            return
        async for progress in self._job.progress(index):
            piece = progress.piece
            yield Part(piece.text, piece.token_ids, piece.logprobs, progress)
        if self._job.generation.finish_reason == "abort":
            raise shutting_down()

    async def _scored(self, ids: Sequence[int]) -> Sequence[TokenLogprobs | None]:
        """Log-probabilities of a prompt's own tokens; computed once for all its answers."""
        top = self._request.logprobs
        if top is None:
            return ()
        if self._scores[0] is not ids:
            scores = await self._job.call(
                lambda engine, wanted: engine.score(ids, top, wanted=wanted)
            )
            self._scores = (ids, scores)
        return self._scores[1]

    @property
    def _finish(self) -> str:
        return self._job.generation.finish_reason if self._plan.answers else "length"

    @property
    def _shows_all(self) -> bool:
        """Whether a piece without text has an event all the same."""
        request, options = self._request, self._request.stream_options
        continuous = options is not None and bool(options.continuous_usage_stats)
        asked = bool(request.return_token_ids or request.return_rounds)
        return continuous or asked or request.logprobs is not None

    def _event(self, choice: dict[str, Any], part: Part) -> dict[str, Any]:
        more = {}
        if part.progress is not None and self._request.return_rounds:
            more["hybridspec"] = {"round": round_document(self._tokenizer, part.progress)}
        return self._job.event(KIND, [choice], **more)

    def _offsets(self, index: int) -> Offsets:
        """Where the answer's tokens begin: behind the prompt where it is echoed."""
        return Offsets(self._tokenizer, len(self._plan.prompts[index]))

    def _choice(
        self, index: int, parts: Sequence[Part], offsets: Offsets, finish: str | None = None
    ) -> dict[str, Any]:
        choice = _bare(index, "".join(part.text for part in parts), finish)
        if self._request.logprobs is not None:
            choice["logprobs"] = self._logprobs(parts, offsets)
        if self._request.return_token_ids:
            given = [part for part in parts if part.progress is not None]
            choice["token_ids"] = [token for part in given for token in part.ids]
            choice["prompt_token_ids"] = self._plan.asks[index].ids
        return choice

    def _logprobs(self, parts: Sequence[Part], offsets: Offsets) -> dict[str, Any]:
        """Of the prompt, where it is among the parts, and of the answer."""
        given = [part for part in parts if part.progress is not None]
        ids = [token for part in given for token in part.ids]
        entries = [entry for part in given for entry in part.logprobs]
        answer = completion_logprobs(self._tokenizer, ids, entries, offsets.of(ids))
        for part in parts:
            if part.progress is None:
                prompt = self._prompt_logprobs(part)
                answer = {name: prompt[name] + answer[name] for name in answer}
        return answer

    def _prompt_logprobs(self, part: Part) -> dict[str, Any]:
        """Made once for all answers to a prompt."""
        if self._echoed[0] is not part.ids:
            offsets = Offsets(self._tokenizer, named=True).of(part.ids)
            made = completion_logprobs(self._tokenizer, part.ids, part.logprobs, offsets)
            self._echoed = (part.ids, made)
        return self._echoed[1]


def _bare(index: int, text: str, finish: str | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
