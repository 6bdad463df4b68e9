"""The tools of a request, checked before a template or a parser sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridspec.checks import brief, is_unicode
from hybridspec.errors import RequestError
from hybridspec.text.tools.values import dumped

Tools = Sequence[Mapping[str, Any]]
EXAMPLE = (
    'an object such as {"type": "function", "function": {"name": "search", "parameters": '
    '{"type": "object", "properties": {"query": {"type": "string"}}}}}'
)


def check_tools(tools: Tools) -> None:
    """Refuse definitions that are not of OpenAI's form.

    Raises:
        RequestError: no list, or the first tool that cannot be used.
    """
    if not isinstance(tools, list | tuple):
        raise RequestError(f"The tools are {brief(tools)}; expected a list of definitions.")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        names.add(name := _checked(index, tool))
        if len(names) <= index:
            raise RequestError(f"Two tools have the name {name!r}; give each a name of its own.")


def _checked(index: int, tool: Mapping[str, Any]) -> str:
    """The name of a tool that can be used."""
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or tool.get("type", "function") != "function":
        raise RequestError(f"Tool {index} is no function; expected {EXAMPLE}.")
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not _is_name(name):
        raise RequestError(
            f"Tool {index} has the name {brief(name)}; expected a text such as search."
        )
    if parameters is not None and not isinstance(parameters, Mapping):
        raise RequestError(
            f"Tool {index} ({name}) has parameters of the type {type(parameters).__name__}; "
            'expected a JSON schema such as {"type": "object", "properties": {}}.'
        )
    try:
        dumped(tool)
    except (TypeError, ValueError, RecursionError):
        raise RequestError(
            f"Tool {index} ({name}) cannot be written as JSON; expected texts, numbers, true, "
            "false, null, lists and objects, not nested too deeply."
        ) from None
    return name


def _is_name(text: str) -> bool:
    """Whether every form of calls can hold it."""
    return bool(text.strip()) and not any(mark in text for mark in "<>\n") and is_unicode(text)
