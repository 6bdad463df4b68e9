"""The value of a tool's parameter, from the text a model wrote to the JSON its schema asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from hybridspec.checks import is_unicode

STRING = frozenset({"string"})
MOST_NESTED = 16  # schemas within schemas that are looked into
_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}
_NAMES |= {float: "number", type(None): "null"}


def parameter_types(tool: Mapping[str, Any] | None, name: str) -> frozenset[str]:
    """The JSON types that a parameter may have; a string where the schema does not say.

    Args:
        tool: a definition in OpenAI's form; None for a function that nobody defined.
        name: of the parameter.
    """
    schema = {} if tool is None else tool["function"].get("parameters") or {}
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, Mapping) else None
    if found is None:
        found = schema.get("additionalProperties")
    return frozenset(_types(found, schema, MOST_NESTED, set())) or STRING


def json_of(text: str, types: frozenset[str]) -> str:
    """A value as JSON: of the first of its types that the text reads as, else a string.

    Null, truth values, integers, numbers, objects and arrays are tried in this order. Truth values
    and null may be written as in Python, which is how templates render them. A string is the text
    as it stands.
    """
    if types != STRING:
        for name, read in _READERS.items():
            if name in types:
                try:
                    return dumped(read(text.strip()))
                except (ValueError, RecursionError):
                    continue
    return dumped(text)


def dumped(value: object) -> str:
    """A value as JSON.

    Raises:
        ValueError: a number that JSON cannot hold. RecursionError: nested too deeply.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if is_unicode(text) else json.dumps(value, allow_nan=False)


def loaded(text: str) -> Any:
    """JSON as it is defined, without the NaN and infinities that Python adds.

    Line ends within strings, which JSON wants escaped and models forget to, are let through.

    Raises:
        ValueError: it is not JSON. RecursionError: nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, strict=False)


def _types(schema: object, root: Mapping[str, Any], depth: int, seen: set[str]) -> Iterable[str]:
    """The types that are named. seen: the references that were followed; none is twice."""
    if not isinstance(schema, Mapping) or depth == 0:
        return
    named = schema.get("type")
    yield from [named] if isinstance(named, str) else named if isinstance(named, list) else ()
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if named is None and isinstance(values, list):
        yield from (_NAMES[type(value)] for value in values if type(value) in _NAMES)
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        for choice in choices if isinstance(choices, list) else ():
            yield from _types(choice, root, depth - 1, seen)
    pointer = schema.get("$ref")
    if isinstance(pointer, str) and pointer not in seen:
        seen.add(pointer)
        yield from _types(_referred(pointer, root), root, depth - 1, seen)


def _referred(pointer: str, root: Mapping[str, Any]) -> object:
    """What a reference such as `#/$defs/Place` names; None if nothing."""
    if not pointer.startswith("#/"):
        return None
    found: object = root
    for key in pointer.removeprefix("#/").split("/"):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _null(text: str) -> None:
    if text not in ("null", "None"):
        raise ValueError(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _integer(text: str) -> int:
    value = _number(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


def _number(text: str) -> int | float:
    value: int | float = _instance(text, int, float)
    if isinstance(value, bool) or value in (float("inf"), float("-inf")):
        raise ValueError(text)
    return value


def _instance(text: str, *kinds: type) -> Any:
    value = loaded(text)
    if not isinstance(value, kinds):
        raise ValueError(text)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


_READERS: dict[str, Callable[[str], object]] = {
    "null": _null,
    "boolean": _boolean,
    "integer": _integer,
    "number": _number,
    "object": lambda text: _instance(text, dict),
    "array": lambda text: _instance(text, list),
}
