"""The messages of a conversation, checked before a template sees them.

A template is foreign code: what it cannot use it may refuse with a phrase of Python's, or drop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridspec.checks import brief
from hybridspec.errors import RequestError
from hybridspec.text.tools.values import loaded

Message = Mapping[str, Any]
EXAMPLE = 'an object such as {"role": "user", "content": "Hello"}'


def check_roles(messages: Sequence[Message]) -> None:
    """Refuse what no template can take.

    Raises:
        RequestError: no messages, or one without a role.
    """
    if not messages:
        raise RequestError("The conversation is empty; expected at least one message.")
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"Message {index} has no role; expected {EXAMPLE}.")


def as_text(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages with each content as one string, which is what every template takes.

    Parts of text are joined without anything between them, as Qwen's templates join them. An
    assistant's message that only calls tools has no content, which is the empty string. Arguments
    of calls, which clients send as JSON in a string, become objects: Qwen's templates walk them.

    Raises:
        RequestError: a message without a role or content, with other content than text, or with
            tool calls that are not of OpenAI's form.
    """
    check_roles(messages)
    return [_plain(index, message) for index, message in enumerate(messages)]


def _plain(index: int, message: Message) -> dict[str, Any]:
    plain = {**message, "content": _content(index, message)}
    calls = plain.pop("tool_calls", None)
    if not calls:  # clients send null or an empty list where there are none
        return plain
    if message["role"] != "assistant" or not isinstance(calls, list | tuple):
        raise RequestError(
            f"Message {index} ({message['role']}) has tool_calls {brief(calls)}; expected a list, "
            "in messages of the assistant only."
        )
    return {**plain, "tool_calls": [_call(index, call) for call in calls]}


def _call(index: int, call: object) -> dict[str, Any]:
    """A tool call with its arguments as an object."""
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise RequestError(
            f"Message {index} has the tool call {brief(call)}; expected an object such as "
            '{"type": "function", "function": {"name": "search", "arguments": "{}"}}.'
        )
    arguments = _arguments(function.get("arguments"))
    if arguments is None:
        raise RequestError(
            f"Message {index} calls {function['name']} with the arguments "
            f"{brief(function['arguments'])}; expected a JSON object, as an object or as a string."
        )
    assert isinstance(call, Mapping)
    return {**call, "function": {**function, "arguments": arguments}}


def _arguments(given: object) -> Mapping[str, Any] | None:
    """Arguments as an object: none given are an empty one. None if they are something else."""
    if given is None or given == "":
        return {}
    if isinstance(given, str):
        try:
            given = loaded(given)
        except (ValueError, RecursionError):
            return None
    return given if isinstance(given, Mapping) else None


def _content(index: int, message: Message) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if content is None and message["role"] == "assistant" and message.get("tool_calls"):
        return ""
    if content is None or content == []:
        raise RequestError(f"Message {index} ({message['role']}) has no content; expected text.")
    if isinstance(content, list | tuple):
        return "".join(_text_of(index, part) for part in content)
    raise RequestError(
        f"Message {index} has content of the type {type(content).__name__}; expected text, or a "
        "list of parts of text."
    )


def _text_of(index: int, part: object) -> str:
    """The text of a part; an image would become a placeholder that nothing fills."""
    kind = part.get("type") if isinstance(part, Mapping) else type(part).__name__
    if not isinstance(part, Mapping) or kind != "text":
        raise RequestError(
            f"Message {index} has content of the type {kind!r}; only text is supported. Leave "
            'images, video and audio out, and give text as {"type": "text", "text": "Hello"}.'
        )
    text = part.get("text")
    if not isinstance(text, str):
        raise RequestError(f"Message {index} has a part of text without a text; expected a string.")
    return text
