"""Prompts of requests as token ids, and where an answer to them begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError
from hybridspec.serving.errors import ApiError, refusal
from hybridspec.serving.protocol import ChatMessage, Tool
from hybridspec.text.messages import as_text
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools import check_tools

ROLES = {"developer": "system", "function": "tool"}  # OpenAI's names, old and new, for one thing
TAIL = 64  # characters of a prompt's end that tell where the answer begins
CHARACTERS = 8  # of a token; text has about half as many
MARGIN = 1024  # tokens that a part may have beyond the whole's, for its last word is cut
RESERVED = ("messages", "tools", "add_generation_prompt", "self")


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a chat template is given.

    Attributes:
        messages: as they came.
        tools: those that the model may call.
        variables: what else the template reads.
        opening: text after the generation prompt, with which the answer is made to begin.
    """

    messages: Sequence[ChatMessage]
    tools: Sequence[Tool] = ()
    variables: Mapping[str, Any] | None = None
    generation: bool = True
    opening: str = ""

    def text(self, tokenizer: Tokenizer) -> str:
        """The prompt.

        Raises:
            ApiError: messages or tools that cannot be used.
        """
        variables = dict(self.variables or {})
        for name in RESERVED:
            if name in variables:
                said = f"chat_template_kwargs holds {name}, which has a place of its own."
                raise ApiError(400, said, param="chat_template_kwargs", code="invalid_value")
        tools = definitions(self.tools)
        messages = _in_template_form(self.messages)
        try:
            rendered = tokenizer.render_chat(
                messages, tools=tools or None, add_generation_prompt=self.generation, **variables
            )
        except HybridSpecError as error:
            raise refusal(error, param="messages") from error
        return rendered + self.opening


def tokenizer_of(engine: Engine) -> Tokenizer:
    """The engine's tokenizer.

    Raises:
        ApiError: it has none.
    """
    if engine.tokenizer is None:
        raise ApiError(400, "This server has no tokenizer, so it can take token ids only.")
    return engine.tokenizer


def encoded(
    engine: Engine, prompt: str | list[int], *, param: str, special: bool = True
) -> list[int]:
    """Token ids that leave room for an answer.

    Args:
        engine: whose tokenizer, vocabulary and context hold.
        prompt: text or ids.
        param: what the request calls it.
        special: let the tokenizer add what it adds to plain text.

    Raises:
        ApiError: an empty prompt, ids out of range, or one that is too long.
    """
    try:
        if isinstance(prompt, str):
            _check_beginning(engine, prompt, param)
        if isinstance(prompt, str) and not special:
            ids = tokenizer_of(engine).encode(prompt, add_special_tokens=False)
        else:
            ids = engine.encode(prompt)
    except HybridSpecError as error:
        raise refusal(error, param=param) from error
    if len(ids) >= engine.max_context:
        raise _too_long(engine, str(len(ids)), param)
    return ids


def _check_beginning(engine: Engine, text: str, param: str) -> None:
    """Refuse what is far too long by a part of it: all of it may take a minute and gigabytes."""
    size = CHARACTERS * engine.max_context
    while size < len(text):
        part = tokenizer_of(engine).encode(text[:size], add_special_tokens=False)
        if len(part) >= engine.max_context + MARGIN:
            raise _too_long(engine, f"more than {engine.max_context}", param)
        size *= 4


def _too_long(engine: Engine, tokens: str, param: str) -> ApiError:
    return ApiError(
        400,
        f"The prompt has {tokens} tokens and the context {engine.max_context}, which must also "
        "hold the answer. Shorten the prompt.",
        param=param,
        code="context_length_exceeded",
    )


def check_count(engine: Engine, messages: Sequence[ChatMessage]) -> None:
    """Refuse more messages than tokens have room, before a template spends seconds on them.

    Raises:
        ApiError: there are more; each is a token at least.
    """
    if len(messages) >= engine.max_context:
        raise _too_long(engine, f"more than {engine.max_context}", "messages")


def definitions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as templates and parsers take them.

    Raises:
        ApiError: two of one name, or one that cannot be used.
    """
    made = [tool.model_dump(exclude_none=True) for tool in tools]
    try:
        check_tools(made)
    except HybridSpecError as error:
        raise refusal(error, param="tools") from error
    return made


def _in_template_form(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Contents as text, roles as templates know them, and one system message at the beginning."""
    plain = [_plain(message) for message in messages]
    try:
        plain = as_text(plain)
    except HybridSpecError as error:
        raise refusal(error, param="messages") from error
    count = next((i for i, m in enumerate(plain) if m["role"] != "system"), len(plain))
    if count < 2:
        return plain
    joined = "\n\n".join(message["content"] for message in plain[:count])
    return [{"role": "system", "content": joined}, *plain[count:]]


def _plain(message: ChatMessage) -> dict[str, Any]:
    plain = message.model_dump(exclude_none=True)
    plain["role"] = ROLES.get(message.role, message.role)
    thought = plain.pop("reasoning", None)
    if thought is not None:
        plain.setdefault("reasoning_content", thought)
    return plain
