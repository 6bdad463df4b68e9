"""Requests as they come over the wire. Null means the default, as OpenAI has it.

Types are checked here; ranges of what the engine knows are the engine's (`core.SamplingParams`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from hybridspec.serving.errors import ApiError
from hybridspec.serving.parameters import served

MOST_CHOICES = 64  # of one request: each is an answer of its own
MOST_PROMPTS = 64
# Bodies are read in the event loop, and Python runs no other thread meanwhile: what is read must be
# bounded, and so must the faults that are found. Beyond these it would take a second and more.
MOST_MESSAGES = 10_000
MOST_TOOLS = 2_000
MOST_IDS = 2**20  # token ids of all prompts together
MOST_BIASES = 10_000
MOST_FIELDS = 1_000  # of one object


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _prompts(value: Any) -> Any:
    """One prompt or several: text or token ids each."""
    several = value
    _check_size(value)
    if isinstance(value, str) or _are(value, int):
        several = [value]
    holds = isinstance(several, list) and several
    if not holds or not all(isinstance(p, str) or _are(p, int) for p in several):
        raise PydanticCustomError(
            "prompt", "Expected text, a list of token ids, or a list of either"
        )
    return several


def _check_size(value: Any) -> None:
    parts = value if isinstance(value, list) else ()
    few = len(parts) <= MOST_IDS  # then each is looked at
    if not few or sum(len(p) if isinstance(p, list) else 1 for p in parts) > MOST_IDS:
        raise PydanticCustomError("prompt", f"Expected at most {MOST_IDS:,} token ids in all")


def _are(value: Any, kind: type) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)
    )


def _biases(value: Any) -> Any:
    """A JSON object has strings as keys; these are of digits."""
    if not isinstance(value, dict):
        return value
    if len(value) > MOST_BIASES:
        raise PydanticCustomError("logit_bias", f"Expected at most {MOST_BIASES:,} token ids")
    if not all(isinstance(key, str) and key.isascii() and key.isdecimal() for key in value):
        raise PydanticCustomError("logit_bias", "Expected token ids as keys")
    return {int(key): bias for key, bias in value.items()}


Text = str | list[str]
Biases = Annotated[
    dict[int, float] | None,
    BeforeValidator(_biases, json_schema_input_type=dict[str, float] | None),
]
PromptForms = str | list[str] | list[int] | list[list[int]]
Texts = Annotated[list[str], Field(fail_fast=True)]
Ids = Annotated[list[int], Field(fail_fast=True)]
Stops = Annotated[Texts | None, BeforeValidator(_listed, json_schema_input_type=Text | None)]
Prompts = Annotated[
    list[str | Ids],
    Field(fail_fast=True),
    BeforeValidator(_prompts, json_schema_input_type=PromptForms),
]


def _at_most(most: int) -> BeforeValidator:
    """Refuses a longer list before it is read."""

    def check(value: Any) -> Any:
        if isinstance(value, list) and len(value) > most:
            raise PydanticCustomError("many", f"Expected at most {most:,}, not {len(value):,}")
        return value

    return BeforeValidator(check)


class Strict(BaseModel):
    """A part of a request: JSON's own types only, and no field that is not here."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, body: Any) -> Any:
        if isinstance(body, dict) and len(body) > MOST_FIELDS:
            said = f"An object has {len(body):,} fields; expected at most {MOST_FIELDS:,}."
            raise ApiError(400, said, code="invalid_value")
        return body


class Lenient(BaseModel):
    """A part that clients send back as they once got it, with fields of all kinds."""

    model_config = ConfigDict(strict=True, extra="ignore")


class StreamOptions(Strict):
    """How a stream reports."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: bool | None = None  # padding against listeners: nothing to pad here


class Function(Lenient):
    """A function that the model may call."""

    name: str = Field(min_length=1)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Lenient):
    """A tool; only functions are known."""

    type: Literal["function"] = "function"
    function: Function


class Called(Lenient):
    """The function of a call."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ToolCall(Lenient):
    """A call that the model made earlier."""

    id: str | None = None
    type: Literal["function"] | None = "function"
    function: Called


class ChatMessage(Lenient):
    """One message of a conversation."""

    role: str
    content: Annotated[Any, Field(description="Text, a list of parts of text, or null")] = None
    name: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[list[ToolCall], Field(fail_fast=True)] | None = None
    tool_call_id: str | None = None


Messages = Annotated[list[ChatMessage], Field(fail_fast=True), _at_most(MOST_MESSAGES)]
Tools = Annotated[list[Tool], Field(fail_fast=True), _at_most(MOST_TOOLS)]


class JsonSchema(Strict):
    """A schema by which an answer is written."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Strict):
    """The form of an answer."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class Chosen(Lenient):
    """The function that must be called, by its name."""

    name: str


class ToolChoice(Lenient):
    """The tool that must be called."""

    type: Literal["function"]
    function: Chosen


def _tool_choice(value: Any) -> Any:
    if isinstance(value, str) and value not in ("none", "auto", "required"):
        raise PydanticCustomError("tool_choice", "Expected none, auto, required or a function")
    return value


class Request(Strict):
    """What both kinds of completion have."""

    known: ClassVar[frozenset[str]] = frozenset()

    model: str | None = Field(None, description="the served name")
    stream: bool | None = Field(None, description="send the answer as it comes")
    stream_options: StreamOptions | None = Field(None, description="see Streaming")
    n: int | None = Field(None, ge=1, le=MOST_CHOICES, description="how many answers")
    max_tokens: int | None = Field(None, description="most tokens of an answer")
    temperature: float | None = Field(None, description="0 is greedy")
    top_p: float | None = Field(None, description="no effect at temperature 0")
    top_k: int | None = Field(None, description="-1 or 0: all; no effect at temperature 0")
    min_p: float | None = Field(None, description="no effect at temperature 0")
    seed: int | None = Field(None, ge=-(2**63), lt=2**64, description="choice i has seed + i")
    presence_penalty: float | None = Field(None, description="-2 to 2, of tokens in the answer")
    frequency_penalty: float | None = Field(None, description="-2 to 2, every time it is there")
    repetition_penalty: float | None = Field(None, description="1 is off; prompt and answer")
    logit_bias: Biases = Field(None, description="token id to -100..100")
    stop: Stops = Field(None, description="text or texts that end the answer")
    stop_token_ids: Ids | None = Field(None, description="ids that end it")
    ignore_eos: bool | None = Field(None, description="go on past the model's own end")
    user: str | None = Field(None, description="who asks; clients take turns by it")
    system: str | None = Field(None, description="the decoding system, such as static:4")
    return_spec_tokens_details: bool | None = Field(None, description="adds sglext")
    return_token_ids: bool | None = Field(None, description="adds ids of prompt and answer")
    return_rounds: bool | None = Field(None, description="adds every round to a stream's events")

    @model_validator(mode="before")
    @classmethod
    def _served(cls, body: Any) -> Any:
        names = {field.alias or name for name, field in cls.model_fields.items()}
        return served(body, names)


class ChatRequest(Request):
    """POST /v1/chat/completions."""

    messages: Messages = Field(min_length=1, description="the conversation")
    max_completion_tokens: int | None = Field(None, description="wins over max_tokens")
    logprobs: bool | None = Field(None, description="log-probabilities of the answer's tokens")
    top_logprobs: int | None = Field(None, ge=0, le=20, description="and of the k most likely")
    tools: Tools | None = Field(None, description="functions that the model may call")
    tool_choice: Annotated[
        Literal["none", "auto", "required"] | ToolChoice | None, BeforeValidator(_tool_choice)
    ] = Field(None, description="none, auto, required or a function")
    parallel_tool_calls: bool | None = Field(None, description="false: the answer ends at a call")
    response_format: ResponseFormat | None = Field(None, description="text, JSON, or by a schema")
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="such as enable_thinking")
    enable_thinking: bool | None = Field(None, description="the same as in chat_template_kwargs")
    reasoning_effort: str | None = Field(None, description="none or minimal: no thought; else one")


class CompletionRequest(Request):
    """POST /v1/completions."""

    prompt: Prompts = Field(max_length=MOST_PROMPTS, description="text or token ids, or several")
    logprobs: int | None = Field(None, ge=0, le=20, description="and of the k most likely")
    echo: bool | None = Field(None, description="begin with the prompt")


class TokenizeRequest(Strict):
    """POST /tokenize: a prompt or a conversation."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    tools: Tools | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeRequest(Strict):
    """POST /detokenize."""

    model: str | None = None
    tokens: Annotated[Ids, _at_most(MOST_IDS)]
