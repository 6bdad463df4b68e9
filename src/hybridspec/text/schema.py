"""Which JSON schemas a grammar keeps to: what it would pass over in silence is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from hybridspec.checks import brief, is_a, is_unicode
from hybridspec.errors import OptionError, said_by
from hybridspec.text.patterns import repetitions, unkept
from hybridspec.text.schema_ends import ends
from hybridspec.text.schema_values import BOUNDS, TYPES, types, unkept_values

MOST_NESTED = 100  # levels
MOST_BYTES = 64 * 1024  # of its text
MOST_MEMBERS = 2000  # properties, choices, values, repetitions: xgrammar takes their square's time
# At one place: four levels of indentation by four. Small models go on with spaces while they may.
MOST_SPACES = 16
# Keywords of JSON Schema that xgrammar 0.2.9 reads past.
UNKEPT = (
    *("not", "if", "dependentRequired", "dependentSchemas", "dependencies", "contains"),
    *("unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
)
# Beside these, xgrammar reads past every other keyword; those that demand nothing may stand there.
ALONE = ("$ref", "allOf", "anyOf", "oneOf")
# By keyword: those that would be read past, or not be kept to, where they stand beside it.
APART = {
    "pattern": ("minLength", "maxLength", "format"),
    "format": ("minLength", "maxLength"),
    "multipleOf": BOUNDS,
    # Names may come twice, and would be counted twice.
    "patternProperties": ("properties", "propertyNames", "minProperties", "maxProperties"),
    "propertyNames": ("properties", "minProperties", "maxProperties"),
}
# By keyword: what must stand beside it, or it would be read past.
NEEDS = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "multipleOf"), ("type",)),
    **dict.fromkeys(BOUNDS, ("type",)),
    **dict.fromkeys(("patternProperties", "propertyNames"), ("type",)),
    **dict.fromkeys(("minProperties", "maxProperties"), ("type", "properties")),
    **dict.fromkeys(("minItems", "maxItems"), ("type", "items", "prefixItems")),
}
IDLE = (
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions", "$anchor"),
)
SIZES = [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties")]
LISTS = ("enum", "anyOf", "oneOf")
MEMBERS = (*LISTS, "properties", "patternProperties")
NAMED = ("properties", "patternProperties", "$defs", "definitions")  # schemas by names of one's own
VALUES = ("enum", "const", "default", "examples")  # no schemas, whatever they look like


def schema_text(schema: Mapping[str, Any] | None) -> str:
    """A schema as JSON; None is that of any object.

    Raises:
        OptionError: it is no JSON object, is too large or nested too deeply, or asks for what is
            not kept to.
    """
    if schema is None:
        return '{"type": "object"}'
    if not isinstance(schema, Mapping):
        raise _refusal(f"is {brief(schema)}; expected a JSON schema as a mapping, or None.")
    try:
        text = json.dumps(schema, allow_nan=False, ensure_ascii=False)
        _check_text(text)
        members = 0
        for part in _schemas(schema, MOST_NESTED):
            _check(part)
            members += sum(len(part[name]) for name in MEMBERS if _sized(part, name))
            members += sum(map(repetitions, (part.get("pattern"), *_patterns(part))))
        if not ends(schema):
            raise _refusal("refers to itself without end, so no answer fits. Give it a way out.")
        text = json.dumps(_disjoined(schema), ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(f"is no JSON: {said_by(error)}. Give a JSON schema.") from None
    if members > MOST_MEMBERS:
        raise _refusal(
            f"has {members:,} properties, choices, values and repetitions in all; expected at "
            f"most {MOST_MEMBERS:,}. Give a smaller one."
        )
    return text


def _check_text(text: str) -> None:
    if len(text) > MOST_BYTES or len(text.encode(errors="replace")) > MOST_BYTES:
        raise _refusal(f"takes more than {MOST_BYTES:,} bytes as JSON. Give a smaller one.")
    if not is_unicode(text):
        raise _refusal("is not valid Unicode, as all text of an answer is. Correct its texts.")


def _sized(schema: Mapping[str, Any], name: str) -> bool:
    return isinstance(schema.get(name), Mapping | list | tuple)


def _schemas(value: Any, levels: int) -> Iterator[Mapping[str, Any]]:
    """A schema and those inside it."""
    if levels == 0:
        raise _refusal(f"is nested more than {MOST_NESTED} levels deep. Give a flatter one.")
    if isinstance(value, list | tuple):
        for part in value:
            yield from _schemas(part, levels - 1)
    elif isinstance(value, Mapping):
        yield value
        for name, part in value.items():
            named = name in NAMED and isinstance(part, Mapping)
            if name == "propertyNames" and isinstance(part, Mapping):
                part = {"type": "string", **part}  # as every name is
            if name not in VALUES:
                yield from _schemas(list(part.values()) if named else part, levels - 1)


def _check(schema: Mapping[str, Any]) -> None:
    """Refuse one schema, without those inside it, for what would not be kept to."""
    _check_forms(schema)
    if (found := _unkept(schema)) is not None:
        raise _refusal(f"uses {found}, which a grammar cannot keep to. Leave it out.")
    lone = (name for name, others in NEEDS.items() if name in schema and not {*others} & {*schema})
    if (name := next(lone, None)) is not None:
        raise _refusal(f"has {name} without a type, and a grammar would read past it. Add a type.")


def _unkept(schema: Mapping[str, Any]) -> str | None:
    """The first thing that would not be kept to, in words."""
    found = next((f"{name!r}" for name in UNKEPT if name in schema), None)
    found = found or _beside(schema) or _apart(schema) or unkept_values(schema)
    found = found or unkept(schema.get("pattern"))
    names = (unkept(name, "patternProperties") for name in _patterns(schema))
    found = found or next(filter(None, names), None)
    if len(_patterns(schema)) > 1:
        found = "'patternProperties' of several patterns"
    several = schema.get("allOf")
    if isinstance(several, list) and len(several) > 1:
        found = "'allOf' of several schemas"
    if "multipleOf" in schema and schema.get("type") != "integer":
        found = "'multipleOf' of a number that is no integer"
    if schema.get("uniqueItems"):
        found = "'uniqueItems'"
    required, named = schema.get("required"), schema.get("properties", {})
    if required is not None and isinstance(named, Mapping) and not {*required} <= {*named}:
        found = "'required' for a property that 'properties' does not have"
    return found


def _check_forms(schema: Mapping[str, Any]) -> None:
    """Refuse keywords whose values are none of theirs."""
    for name in SIZES:
        if name in schema and (not is_a(schema[name], int) or schema[name] < 0):
            raise _refusal(f"has {name} {brief(schema[name])}; expected an integer of at least 0.")
    for name in (*LISTS, "allOf"):
        if name in schema and not (isinstance(schema[name], list | tuple) and schema[name]):
            raise _refusal(f"has {name} {brief(schema[name])}; expected a list that is not empty.")
    if "type" in schema and not (types(schema) and all(map(_is_type, types(schema)))):
        known = ", ".join(TYPES)
        raise _refusal(f"has type {brief(schema['type'])}; expected one of {known}, or a list.")
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not all(is_a(name, str) for name in required):
        raise _refusal(f"has required {brief(required)}; expected a list of names.")
    pointer = schema.get("$ref", "#")
    if not is_a(pointer, str) or (pointer != "#" and not pointer.startswith("#/")):
        raise _refusal(f"has $ref {brief(pointer)}; expected a place in it such as #/$defs/name.")


def _is_type(value: object) -> bool:
    return isinstance(value, str) and value in TYPES


def _beside(schema: Mapping[str, Any]) -> str | None:
    """A keyword that would be read past, since another is looked at alone."""
    alone = next((name for name in ALONE if name in schema), None)
    if alone is None:
        return None
    others = (name for name in schema if name not in IDLE and name != alone)
    return next((f"{name!r} beside {alone!r}" for name in others), None)


def _apart(schema: Mapping[str, Any]) -> str | None:
    pairs = ((one, other) for one, others in APART.items() for other in others)
    both = (pair for pair in pairs if pair[0] in schema and pair[1] in schema)
    return next((f"{one!r} beside {other!r}" for one, other in both), None)


def _patterns(schema: Mapping[str, Any]) -> list[str]:
    """What names of properties are matched with."""
    found = schema.get("patternProperties")
    return [*map(str, found)] if isinstance(found, Mapping) else []


def _disjoined(value: Any) -> Any:
    """A schema with `anyOf` in place of `oneOf`, which xgrammar takes for it, and warns of it."""
    if isinstance(value, list | tuple):
        return [_disjoined(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    made: dict[Any, Any] = {}
    for name, part in value.items():
        if name in NAMED and isinstance(part, Mapping):
            made[name] = {key: _disjoined(inner) for key, inner in part.items()}
        elif name == "$ref" and isinstance(part, str):
            steps = pairwise(["", *part.split("/")])
            made[name] = "/".join(
                "anyOf" if step == "oneOf" and before not in NAMED else step
                for before, step in steps
            )
        else:
            kept = name in VALUES
            made["anyOf" if name == "oneOf" else name] = part if kept else _disjoined(part)
    return made


def _refusal(said: str) -> OptionError:
    return OptionError("schema", said)
