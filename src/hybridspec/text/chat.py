"""Chat templates: a checkpoint's own Jinja template, rendered as transformers renders it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hybridspec.errors import CheckpointError, RequestError, said_by
from hybridspec.text.messages import Message, check_roles
from hybridspec.text.tools.definitions import Tools


class ChatTemplate:
    """A compiled chat template. It runs in a sandbox, since it came with a download."""

    def __init__(self, source: str, special_tokens: Mapping[str, Any]) -> None:
        """Compile `source`; `special_tokens` (`eos_token` and the like) are visible to it.

        Raises:
            CheckpointError: the template is not valid Jinja, or nested too deeply.
        """
        self._source, self._special_tokens = source, dict(special_tokens)
        try:
            self._template = _environment().from_string(source)
        except Exception as error:  # of Jinja, or of the Python that it makes of the template
            line = f" (line {error.lineno})" if isinstance(error, TemplateSyntaxError) else ""
            raise CheckpointError(
                f"The chat template cannot be read: {said_by(error)}{line}. "
                "Download the tokenizer files again."
            ) from error

    @cached_property
    def takes_tools(self) -> bool:
        """Whether the template reads the definitions of tools."""
        return "tools" in meta.find_undeclared_variables(_environment().parse(self._source))

    @property
    def tool_form(self) -> str | None:
        """The form in which the template asks for calls: a name in `tools.PARSERS`, or None."""
        if not self.takes_tools:
            return None
        return "qwen3_coder" if "<function=" in self._source else "hermes"

    def render(
        self,
        messages: Sequence[Message],
        *,
        enable_thinking: bool | None = None,
        add_generation_prompt: bool = True,
        tools: Tools | None = None,
        **variables: Any,
    ) -> str:
        """The prompt for a conversation.

        Args:
            messages: dicts with `role`, usually `content`, and what else the template reads.
            enable_thinking: None leaves it to the template's default.
            add_generation_prompt: end with the opening of the assistant's turn.
            tools: definitions of functions, in OpenAI's form.
            variables: whatever else the template knows.

        Raises:
            RequestError: no messages, a message without a role, or one the template refuses; tools
                for a template that would pass them over; a variable that hides a function of the
                template's.
        """
        check_roles(messages)
        if tools and not self.takes_tools:
            raise RequestError(
                "The chat template of this checkpoint has no place for tools, so the model would "
                "not see them. Leave the tools out, or use a checkpoint whose template has one."
            )
        taken = next((name for name in variables if name in self._template.environment.globals), "")
        if taken:
            raise RequestError(
                f"The variable {taken} is a function of every chat template. Leave it out."
            )
        if enable_thinking is not None:
            variables["enable_thinking"] = enable_thinking
        known = {**self._special_tokens, "documents": None, **variables}
        try:
            return self._template.render(
                messages=messages, tools=tools, add_generation_prompt=add_generation_prompt, **known
            )
        except Exception as error:  # a template is foreign code: it may fail in any way
            raise RequestError(
                f"The chat template refuses these messages: {said_by(error)}. "
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
