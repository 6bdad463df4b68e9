"""Which JSON schemas a grammar keeps to: what it would pass over in silence is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hybridspec.checks import brief, is_a, is_unicode
from hybridspec.errors import OptionError, said_by
from hybridspec.text.patterns import repetitions, unkept

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
IDLE = (
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
    *("$schema", "$id", "$comment", "$defs", "definitions", "$anchor"),
)
SIZES = [f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items", "Properties")]
LISTS = ("enum", "anyOf", "oneOf")
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
            members += sum(len(part[name]) for name in (*LISTS, "properties") if _sized(part, name))
            members += repetitions(part.get("pattern"))
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
            if name not in VALUES:
                yield from _schemas(list(part.values()) if named else part, levels - 1)


def _check(schema: Mapping[str, Any]) -> None:
    """Refuse one schema, without those inside it, for what would not be kept to."""
    _check_forms(schema)
    found = next((f"{name!r}" for name in UNKEPT if name in schema), None)
    found = found or _beside(schema) or ("pattern" in schema and unkept(schema["pattern"])) or None
    several = schema.get("allOf")
    if isinstance(several, list) and len(several) > 1:
        found = "'allOf' of several schemas"
    if "pattern" in schema and ("minLength" in schema or "maxLength" in schema):
        found = "'pattern' together with a length"
    if "multipleOf" in schema and schema.get("type") != "integer":
        found = "'multipleOf' of a number that is no integer"
    if schema.get("uniqueItems"):
        found = "'uniqueItems'"
    required, named = schema.get("required"), schema.get("properties", {})
    if required is not None and isinstance(named, Mapping) and not {*required} <= {*named}:
        found = "'required' for a property that 'properties' does not have"
    if found is not None:
        raise _refusal(f"uses {found}, which a grammar cannot keep to. Leave it out.")


def _check_forms(schema: Mapping[str, Any]) -> None:
    """Refuse keywords whose values are none of theirs."""
    for name in SIZES:
        if name in schema and (not is_a(schema[name], int) or schema[name] < 0):
            raise _refusal(f"has {name} {brief(schema[name])}; expected an integer of at least 0.")
    for name in (*LISTS, "allOf"):
        if name in schema and not (isinstance(schema[name], list | tuple) and schema[name]):
            raise _refusal(f"has {name} {brief(schema[name])}; expected a list that is not empty.")
    required = schema.get("required", [])
    if not isinstance(required, list | tuple) or not all(is_a(name, str) for name in required):
        raise _refusal(f"has required {brief(required)}; expected a list of names.")
    pointer = schema.get("$ref", "#")
    if not is_a(pointer, str) or (pointer != "#" and not pointer.startswith("#/")):
        raise _refusal(f"has $ref {brief(pointer)}; expected a place in it such as #/$defs/name.")


def _beside(schema: Mapping[str, Any]) -> str | None:
    """A keyword that would be read past, since another is looked at alone."""
    alone = next((name for name in ALONE if name in schema), None)
    if alone is None:
        return None
    others = (name for name in schema if name not in IDLE and name != alone)
    return next((f"{name!r} beside {alone!r}" for name in others), None)


def _refusal(said: str) -> OptionError:
    return OptionError("schema", said)
