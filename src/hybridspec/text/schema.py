"""Which JSON schemas a grammar keeps to: what it would pass over in silence is refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hybridspec.checks import brief
from hybridspec.errors import OptionError, said_by

MOST_NESTED = 100  # levels
# Keywords of JSON Schema that xgrammar 0.2.9 reads past.
UNKEPT = ("not", "if", "dependentRequired", "dependentSchemas", "dependencies")
NAMED = ("properties", "patternProperties", "$defs", "definitions")  # schemas by names of one's own
VALUES = ("enum", "const", "default", "examples")  # no schemas, whatever they look like


def schema_text(schema: Mapping[str, Any] | None) -> str:
    """A schema as JSON; None is that of any object.

    Raises:
        OptionError: it is no JSON object, is nested too deeply, or asks for what is not kept to.
    """
    if schema is None:
        return '{"type": "object"}'
    if not isinstance(schema, Mapping):
        raise _refusal(f"is {brief(schema)}; expected a JSON schema as a mapping, or None.")
    try:
        text = json.dumps(schema, allow_nan=False)
        for part in _schemas(schema, MOST_NESTED):
            _check(part)
    except (TypeError, ValueError, RecursionError) as error:
        raise _refusal(f"is no JSON: {said_by(error)}. Give a JSON schema.") from None
    return text


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
    found = next((f"{name!r}" for name in UNKEPT if name in schema), None)
    several = schema.get("allOf")
    if isinstance(several, list) and len(several) > 1:
        found = "'allOf' of several schemas"
    if "pattern" in schema and ("minLength" in schema or "maxLength" in schema):
        found = "'pattern' together with a length"
    if "multipleOf" in schema and schema.get("type") != "integer":
        found = "'multipleOf' of a number that is no integer"
    required, named = schema.get("required"), schema.get("properties", {})
    if isinstance(required, list) and isinstance(named, Mapping) and not {*required} <= {*named}:
        found = "'required' for a property that 'properties' does not have"
    if found is not None:
        raise _refusal(f"uses {found}, which a grammar cannot keep to. Leave it out.")


def _refusal(said: str) -> OptionError:
    return OptionError("schema", said)
