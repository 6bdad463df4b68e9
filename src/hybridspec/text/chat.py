"""Chat templates: a checkpoint's own Jinja template, rendered as transformers renders it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hybridspec.errors import CheckpointError, RequestError

Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled chat template. It runs in a sandbox, since it came with a download."""

    def __init__(self, source: str, special_tokens: Mapping[str, Any]) -> None:
        """Compile `source`; `special_tokens` (`eos_token` and the like) are visible to it.

        Raises:
            CheckpointError: the template is not valid Jinja.
        """
        self._special_tokens = dict(special_tokens)
        try:
            self._template = _environment().from_string(source)
        except TemplateSyntaxError as error:
            raise CheckpointError(
                f"The chat template cannot be read: {error.message} (line {error.lineno}). "
                "Download the tokenizer files again, or give the prompt without --chat."
            ) from error

    def render(
        self,
        messages: Sequence[Message],
        *,
        enable_thinking: bool | None = None,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> str:
        """The prompt for a conversation.

        Args:
            messages: dicts with `role`, usually `content`, and what else the template reads.
            enable_thinking: None leaves it to the template's default.
            add_generation_prompt: end with the opening of the assistant's turn.
            tools: JSON schemas of functions.
            variables: whatever else the template knows.

        Raises:
            RequestError: no messages, a message without a role, or one the template refuses.
        """
        _check_messages(messages)
        if enable_thinking is not None:
            variables["enable_thinking"] = enable_thinking
        known = {**self._special_tokens, "documents": None, **variables}
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **known
            )
        except Exception as error:  # a template is foreign code: it may fail in any way
            raise RequestError(
                f"The chat template refuses these messages: {error}. "
                "Check their roles, order and contents."
            ) from error


class _GenerationBlock(Extension):
    """`{% generation %}` marks what the assistant says, for training; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as it stands; Jinja's own filter would escape it for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> NoReturn:
    raise TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


def _check_messages(messages: Sequence[Message]) -> None:
    if not messages:
        raise RequestError("The conversation is empty; expected at least one message.")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(
                f"Message {index} has no role; expected an object such as "
                '{"role": "user", "content": "Hello"}.'
            )


def check_text_only(messages: Sequence[Message]) -> None:
    """Refuse what is not text: a template would turn an image into a placeholder nobody fills.

    Raises:
        RequestError: a message holds an image, video or anything else beside text.
    """
    for index, message in enumerate(messages):
        content = message.get("content")
        for part in content if isinstance(content, list) else []:
            kind = part.get("type") if isinstance(part, Mapping) else None
            if kind != "text":
                raise RequestError(
                    f"Message {index} has content of the type {kind!r}; only text is supported. "
                    "Leave images, video and audio out."
                )
