"""What a chat request asks of the engine, and how the answer is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, OptionError
from hybridspec.serving.errors import ApiError, refusal
from hybridspec.serving.prompts import (
    TAIL,
    Conversation,
    check_count,
    definitions,
    encoded,
    tokenizer_of,
)
from hybridspec.serving.protocol import ChatRequest, Tool, ToolChoice
from hybridspec.serving.reading import Reader
from hybridspec.serving.sampling import choice, decoding, sampling
from hybridspec.serving.settings import Settings
from hybridspec.serving.turns import Ask
from hybridspec.text.reasoning import CLOSE, Thought, thought_after
from hybridspec.text.tools import PARSERS
from hybridspec.text.tools.shapes import opening

NO_THOUGHT = ("none", "minimal")
EFFORTS = (*NO_THOUGHT, "low", "medium", "high", "xhigh", "max")
END_OF_THOUGHT = "\n</think>\n\n"


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """A chat request as the engine takes it.

    Attributes:
        ids: the prompt.
        asks: its answers.
        thought: where they begin.
        tools, form: what they may call, and in which form.
        opening: text of theirs that the prompt holds already.
        bound: whether a grammar lets them be calls or something else, not both.
    """

    ids: list[int]
    asks: list[Ask]
    thought: Thought
    tools: list[dict[str, Any]]
    form: str | None
    opening: str
    bound: bool

    def reader(self) -> Reader:
        """Reads one of the answers."""
        parser = PARSERS[self.form](self.tools) if self.form is not None and self.tools else None
        return Reader(self.thought, parser, self.opening, bound=self.bound)


def plan_chat(engine: Engine, settings: Settings, request: ChatRequest) -> ChatPlan:
    """Make one of a request. It takes the tokenizer's time, so it is not for the event loop.

    Raises:
        ApiError: what cannot be served, by the parameter's name.
    """
    tokenizer = tokenizer_of(engine)
    check_count(engine, request.messages)
    tools = _tools(request)
    form = tokenizer.tool_form if tools else None
    begun = _opening(request, form)
    variables = _variables(request, settings, forced=bool(begun))
    text = Conversation(request.messages, tools, variables).text(tokenizer)
    thought = thought_after(text[-TAIL:])
    if begun and thought == "open":
        text, thought = text + END_OF_THOUGHT, "closed"
    ids = encoded(engine, text + begun, param="messages", special=False)
    defined = definitions(tools)
    grammar = _grammar(engine, request, thought, defined if form is not None else None, begun)
    asks = _asks(engine, settings, request, ids, grammar)
    return ChatPlan(ids, asks, thought, defined, form, begun, bool(grammar))


def _asks(
    engine: Engine,
    settings: Settings,
    request: ChatRequest,
    ids: list[int],
    grammar: dict[str, Any],
) -> list[Ask]:
    room = engine.max_context - len(ids)
    most = _most_tokens(request)
    most = min(settings.max_tokens or room, room) if most is None else most
    params = sampling(request, engine, most, logprobs=_logprobs(request))
    options = decoding(request, engine, settings) | grammar
    return [Ask(ids, choice(params, i), options) for i in range(request.n or 1)]


def _most_tokens(request: ChatRequest) -> int | None:
    newer = request.max_completion_tokens
    if newer is not None and newer < 1:
        said = f"max_completion_tokens is {newer}; expected an integer of at least 1."
        raise ApiError(400, said, param="max_completion_tokens", code="invalid_value")
    return request.max_tokens if newer is None else newer


def _logprobs(request: ChatRequest) -> int | None:
    if request.logprobs:
        return request.top_logprobs or 0
    if request.top_logprobs:
        said = "top_logprobs is for answers with logprobs; set logprobs to true."
        raise ApiError(400, said, param="top_logprobs", code="invalid_value")
    return None


def _tools(request: ChatRequest) -> list[Tool]:
    """The tools that the model is told of."""
    wanted, tools = request.tool_choice, request.tools or []
    if wanted is None or wanted == "auto":
        return tools
    if wanted == "none":
        return []
    names = [tool.function.name for tool in tools]
    if isinstance(wanted, ToolChoice) and wanted.function.name not in names:
        said = f"tool_choice names {wanted.function.name!r}, which is not among the tools."
        raise ApiError(400, said, param="tool_choice", code="invalid_value")
    if not tools:
        said = "tool_choice asks for a call, and there are no tools."
        raise ApiError(400, said, param="tool_choice", code="invalid_value")
    return tools


def _opening(request: ChatRequest, form: str | None) -> str:
    """How an answer that must be a call is made to begin."""
    wanted = request.tool_choice
    if form is None or wanted in (None, "auto", "none"):
        return ""
    return opening(form, wanted.function.name if isinstance(wanted, ToolChoice) else None)


def _variables(request: ChatRequest, settings: Settings, *, forced: bool) -> dict[str, Any]:
    """What the template reads. An answer that must be a call has no thought before it."""
    variables = dict(request.chat_template_kwargs or {})
    effort = request.reasoning_effort
    if effort is not None and effort not in EFFORTS:
        said = f"reasoning_effort is {effort!r}; expected one of: {', '.join(EFFORTS)}."
        raise ApiError(400, said, param="reasoning_effort", code="invalid_value")
    by_effort = settings.thinking if effort is None else effort not in NO_THOUGHT
    asked = by_effort if request.enable_thinking is None else request.enable_thinking
    thinking = variables.setdefault("enable_thinking", asked)
    if not isinstance(thinking, bool):
        said = "chat_template_kwargs.enable_thinking is no truth value; expected true or false."
        param = "chat_template_kwargs.enable_thinking"
        raise ApiError(400, said, param=param, code="invalid_value")
    return variables | ({"enable_thinking": False} if forced else {})


def _grammar(
    engine: Engine,
    request: ChatRequest,
    thought: Thought,
    tools: list[dict[str, Any]] | None,
    begun: str,
) -> dict[str, Any]:
    """The form of the answer as an argument of `Engine.stream`. A thought before it is free."""
    form = request.response_format
    if form is None or form.type == "text":
        return {}
    param, schema = "response_format", None
    if form.type == "json_schema":
        schema = form.json_schema.schema_ if form.json_schema is not None else None
        param += ".json_schema.schema"
        if schema is None:
            raise ApiError(400, f"{param} is missing.", param=param)
    after = CLOSE if thought == "open" else None
    try:
        return {"grammar": engine.grammar(schema, after=after, tools=tools, opening=begun)}
    except OptionError as error:
        if error.name != "schema":
            raise refusal(error) from error
        raise ApiError(400, f"{param} {error.said}", param=param, code="invalid_value") from error
    except HybridSpecError as error:
        raise refusal(error, param="response_format") from error
