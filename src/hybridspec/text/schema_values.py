"""Values in a JSON schema that a grammar would not keep to: listed ones, bounds, types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hybridspec.checks import is_a

BITS = 63  # of a whole number; xgrammar makes a float of a larger one
DECIMALS = 6  # of a bound, as xgrammar writes it
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
LISTED = ("enum", "const")
# What stands beside a list of values would be read past; its type is compared with them here.
BESIDE_LISTED = (
    *BOUNDS, "minLength", "maxLength", "pattern", "format", "multipleOf", "minItems", "maxItems",
    "minProperties", "maxProperties", "patternProperties", "propertyNames", "properties",
    "required", "additionalProperties", "items", "prefixItems",
)  # fmt: skip
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,), "number": (int, float), "integer": (int, float), "boolean": (bool,),
    "null": (type(None),), "object": (Mapping,), "array": (list, tuple),
}  # fmt: skip


def types(schema: Mapping[str, Any]) -> list[Any]:
    """Its types; none where it names none."""
    named = schema.get("type", [])
    return [*named] if isinstance(named, list | tuple) else [named]


def unkept_values(schema: Mapping[str, Any]) -> str | None:
    """The first value of one schema that would not be kept to, in words."""
    for name in LISTED:
        if name in schema:
            return _unlisted(schema, name)
    for name in BOUNDS:
        value = schema.get(name)
        if isinstance(value, int) and abs(value).bit_length() > BITS:
            return f"{name!r} of more than 64 bits"
        if isinstance(value, float) and value != round(value, DECIMALS):
            return f"{name!r} of more than {DECIMALS} decimals"
    return None


def _unlisted(schema: Mapping[str, Any], name: str) -> str | None:
    beside = (other for other in (*LISTED, *BESIDE_LISTED) if other in schema and other != name)
    if (other := next(beside, None)) is not None:
        return f"{other!r} beside {name!r}"
    values = schema[name] if name == "enum" else [schema[name]]
    if any(abs(n).bit_length() > BITS for value in values for n in _whole(value)):
        return f"{name!r} with a number of more than 64 bits"
    named = types(schema)
    if named and not all(any(_is(value, kind) for kind in named) for value in values):
        return f"{name!r} with a value that is not of its 'type'"
    return None


def _is(value: object, kind: str) -> bool:
    whole = kind != "integer" or not isinstance(value, float) or value.is_integer()
    return whole and is_a(value, *TYPES[kind])


def _whole(value: object) -> Iterator[int]:
    """All integers in a value."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _whole(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _whole(part)
    elif is_a(value, int):
        assert isinstance(value, int)
        yield value
