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
    {"type": "string", "pattern": r"^[^\"\\]+|(?:\d\.\x41){2}[\s\w]$"},
    {"$ref": "#/$defs/a", "title": "A", "default": 1, "$defs": {"a": {"anyOf": [{}, {}]}}},
    {"type": "string", "enum": ["a", "\U0001f600"], "uniqueItems": False},
    {"type": ["integer", "null"], "enum": [1, 2.0, None, 2**63 - 1]},
    {"type": "boolean", "const": True},
    {"type": "number", "minimum": 0.000001, "exclusiveMaximum": 2**62},
    {"type": "array", "items": {"$ref": "#"}},
    {"anyOf": [{"$ref": "#"}, {"type": "null"}]},
    {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/c"}, "c": {"type": "null"}},
        "anyOf": [{"$ref": "#/$defs/a"}],
    },
    {
        "$defs": {"c": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}, "a": {"type": "null"}},
        "anyOf": [{"$ref": "#/$defs/c"}],
    },
    {"properties": {"a": {"$ref": "#"}, "b": {}}, "required": ["b"]},
    {"properties": {"a": {}}, "required": ["a"]},
    {"type": "object", "propertyNames": {"pattern": "^a$"}},
    {
        "type": "object",
        "patternProperties": {"^x-[a-z]+$": {"type": "string"}},
        "additionalProperties": False,
    },
    {"properties": {"oneOf": {"enum": [{"oneOf": [1]}]}, "b": {"$ref": "#/properties/oneOf"}}},
]


@pytest.mark.parametrize("schema", TAKEN, ids=str)
def test_schemas_that_are_kept_to(schema):
    """Among them names of properties and values that read like keywords."""
    assert json.loads(schema_text(schema)) == schema


def test_one_of_several_is_any_of_them():
    """As xgrammar takes it, which would say so on standard error."""
    schema = {"$defs": {"oneOf": {"oneOf": [{"const": "oneOf"}]}}, "$ref": "#/$defs/oneOf/oneOf/0"}
    made = {"$defs": {"oneOf": {"anyOf": [{"const": "oneOf"}]}}, "$ref": "#/$defs/oneOf/anyOf/0"}
    assert json.loads(schema_text({"items": [schema]})) == {"items": [made]}


REFUSED = [
    ({"not": {}}, "uses 'not', which"),
    ({"properties": {"a": {"items": {"if": {}}}}}, "uses 'if', which"),
    ({"anyOf": [{}, {"dependentRequired": {"a": ["b"]}}]}, "uses 'dependentRequired', which"),
    ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "uses 'allOf' of several"),
    (
        {"type": "string", "pattern": "a", "minLength": 3},
        "uses 'pattern' beside 'minLength', which",
    ),
    ({"type": "string", "pattern": "a", "format": "date"}, "uses 'pattern' beside 'format', which"),
    ({"format": "email", "maxLength": 3}, "uses 'format' beside 'maxLength', which"),
    ({"type": "integer", "multipleOf": 2, "minimum": 1}, "uses 'multipleOf' beside 'minimum'"),
    ({"patternProperties": {"a": {}}, "properties": {}}, "uses 'patternProperties' beside 'prop"),
    ({"patternProperties": {"a": {}, "b": {}}}, "uses 'patternProperties' of several patterns"),
    ({"propertyNames": {"pattern": "a"}, "properties": {}}, "uses 'propertyNames' beside 'prop"),
    ({"patternProperties": {"a(?=b)": {}}}, "uses 'patternProperties' with a look around"),
    ({"patternProperties": {"": {}}}, "uses 'patternProperties' with an empty text, which"),
    ({"items": {"patternProperties": {"a$b": {}}}}, "uses 'patternProperties' with an anchor"),
    ({"patternProperties": {'a"b': {}}}, "uses 'patternProperties' with a quote"),
    ({"patternProperties": {r"\q": {}}}, r"uses 'patternProperties' with the escape \q, which"),
    ({"type": "object", "patternProperties": {"a": {"not": {}}}}, "uses 'not', which"),
    ({"type": "number", "multipleOf": 0.5}, "uses 'multipleOf' of a number"),
    ({"required": ["a"]}, "uses 'required' for a property"),
    ({"anyOf": []}, "has anyOf []; expected a list that is not empty"),
    ({"oneOf": []}, "has oneOf []; expected"),
    ({"allOf": {}}, "has allOf {}; expected"),
    ({"properties": {"a": {"enum": []}}}, "has enum []; expected"),
    ({"minLength": -5}, "has minLength -5; expected an integer of at least 0"),
    ({"maxItems": 1.5}, "has maxItems 1.5; expected"),
    ({"required": "ab"}, "has required 'ab'; expected a list of names"),
    ({"required": [[]]}, "has required [[]]; expected"),
    ({"$ref": "other.json"}, "has $ref 'other.json'; expected a place in it"),
    ({"$ref": 5}, "has $ref 5; expected"),
    ({"$ref": "#", "type": "integer"}, "uses 'type' beside '$ref'"),
    ({"type": "object", "allOf": [{}]}, "uses 'type' beside 'allOf'"),
    ({"anyOf": [{"minimum": 0}], "type": "integer"}, "uses 'type' beside 'anyOf'"),
    ({"type": "string", "enum": ["a"], "maxLength": 1}, "uses 'maxLength' beside 'enum', which"),
    ({"const": 1, "enum": [1]}, "uses 'const' beside 'enum', which"),
    ({"type": "string", "enum": ["a", 1]}, "uses 'enum' with a value that is not of its 'type'"),
    ({"type": "integer", "const": 1.5}, "uses 'const' with a value that is not of its 'type'"),
    ({"type": "integer", "const": True}, "uses 'const' with a value that is not of its 'type'"),
    ({"const": {"a": [2**63]}}, "uses 'const' with a number of more than 64 bits, which"),
    ({"type": "integer", "minimum": -(10**30)}, "uses 'minimum' of more than 64 bits, which"),
    ({"type": "number", "maximum": 1e-9}, "uses 'maximum' of more than 6 decimals, which"),
    (
        {"type": "object", "propertyNames": {"pattern": "a"}, "minProperties": 2},
        "uses 'propertyNames' beside 'minProperties', which",
    ),
    ({"type": []}, "has type []; expected one of string, number, integer,"),
    ({"type": "text"}, "has type 'text'; expected one of"),
    ({"type": [5]}, "has type [5]; expected one of"),
    ({"$ref": "#"}, "refers to itself without end, so"),
    ({"anyOf": [{"$ref": "#"}]}, "refers to itself without end, so"),
    (
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        "refers to itself without end, so",
    ),
    ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "refers to itself without end, so"),
    ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "refers to itself without end, so"),
    ({"minLength": 3}, "has minLength without a type, and"),
    ({"items": {"minimum": 0, "title": "a"}}, "has minimum without a type, and"),
    ({"patternProperties": {"a": {}}}, "has patternProperties without a type, and"),
    ({"maxItems": 0}, "has maxItems without a type, and"),
    ({"minProperties": 1}, "has minProperties without a type, and"),
    ({"contains": {}}, "uses 'contains', which"),
    ({"uniqueItems": True}, "uses 'uniqueItems', which"),
    ({"$dynamicRef": "#a"}, "uses '$dynamicRef', which"),
    ({"unevaluatedItems": False}, "uses 'unevaluatedItems', which"),
    ({"unevaluatedProperties": False}, "uses 'unevaluatedProperties', which"),
    ({"enum": ["\ud800"]}, "is not valid Unicode"),
    ({"const": {"\udfff": 1}}, "is not valid Unicode"),
    ({"type": "string", "pattern": ""}, "uses 'pattern' with an empty text"),
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


HALVES = {
    "enum": {"enum": list(range(1001))},
    "properties": {"properties": {f"p{i}": {} for i in range(1000)}},
    "choices": {"anyOf": [{}] * 999},
    "repetitions": {"type": "string", "pattern": "a{3}b{9,990}c{7,}"},
    "names": {"type": "object", "patternProperties": {"a{3}b{9,990}c{6,}": {}}},
}


@pytest.mark.parametrize(
    "names",
    [("enum", "properties"), ("enum", "choices"), ("enum", "repetitions"), ("enum", "names")],
)
def test_a_schema_of_too_many_parts(names):
    """One more than may be, in two places; and without one of them."""
    parts = [HALVES[name] for name in names]
    said = r"^schema has 2,00\d properties, .* and repetitions in all; expected at most 2,000"
    with pytest.raises(OptionError, match=said):
        schema_text({"items": {"prefixItems": [*parts, {"enum": [1, 2]}]}})
    schema_text({"items": {"prefixItems": parts[1:]}})


@pytest.mark.parametrize("letter", ["a", "\u65e5"])
def test_a_schema_of_too_much_text(letter):
    frame, size = len('{"description": ""}'), len(letter.encode())
    longest = letter * ((65536 - frame) // size)
    schema_text({"description": longest})
    with pytest.raises(OptionError, match=r"^schema takes more than 65,536 bytes as JSON"):
        schema_text({"description": longest + letter})
