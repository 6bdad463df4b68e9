"""Which JSON schemas are taken, and what is said of the others."""

from __future__ import annotations

import json
import re

import pytest

from hybridspec.errors import OptionError
from hybridspec.text.schema import schema_text

TAKEN = [
    {"type": "object", "properties": {"not": {"type": "string"}, "if": {"type": "integer"}}},
    {"enum": [{"not": 1}], "default": {"if": {}}},
    {"$defs": {"dependencies": {"type": "string"}}, "allOf": [{"$ref": "#/$defs/dependencies"}]},
    {"type": "integer", "multipleOf": 3},
    {"type": "string", "pattern": "^a*$"},
    {"properties": {"a": {}}, "required": ["a"]},
]


@pytest.mark.parametrize("schema", TAKEN, ids=str)
def test_schemas_that_are_kept_to(schema):
    """Among them names of properties and values that read like keywords."""
    assert json.loads(schema_text(schema)) == schema


REFUSED = [
    ({"not": {}}, "uses 'not', which"),
    ({"properties": {"a": {"items": {"if": {}}}}}, "uses 'if', which"),
    ({"anyOf": [{}, {"dependentRequired": {"a": ["b"]}}]}, "uses 'dependentRequired', which"),
    ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "uses 'allOf' of several"),
    ({"type": "string", "pattern": "a", "minLength": 3}, "uses 'pattern' together with a length"),
    ({"type": "number", "multipleOf": 0.5}, "uses 'multipleOf' of a number"),
    ({"required": ["a"]}, "uses 'required' for a property"),
    ([], "is []; expected a JSON schema"),
    ("{}", "is '{}'; expected a JSON schema"),
    (True, "is True; expected a JSON schema"),
    ({"enum": [b"x"]}, "is no JSON"),
    ({"minimum": float("nan")}, "is no JSON"),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED, ids=str)
def test_schemas_that_would_not_be_kept_to(schema, said):
    with pytest.raises(OptionError, match=f"^schema {re.escape(said)}"):
        schema_text(schema)


@pytest.mark.parametrize("levels", [120, 100_000])
def test_a_schema_that_is_nested_too_deeply(levels):
    schema: dict = {}
    for _ in range(levels):
        schema = {"items": schema}
    with pytest.raises(OptionError, match=r"^schema is "):
        schema_text(schema)
