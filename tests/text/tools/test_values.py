from __future__ import annotations

import json

import pytest
from call_texts import tool

from hybridspec.text.tools import values
from hybridspec.text.tools.values import json_of, parameter_types

ALL = ("null", "boolean", "integer", "number", "object", "array", "string")


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("12", ["string"], "12"),
        (" a ", ["string"], " a "),
        ("12", ["integer"], 12),
        (" -3\n", ["integer"], -3),
        ("5.0", ["integer"], 5),
        ("1e3", ["integer"], 1000),
        ("5.5", ["integer"], "5.5"),
        ("many", ["integer"], "many"),
        ("true", ["integer"], "true"),
        ("9" * 5000, ["integer"], "9" * 5000),
        ("5.5", ["number"], 5.5),
        ("5", ["number"], 5),
        ("1e999", ["number"], "1e999"),
        ("NaN", ["number"], "NaN"),
        ("true", ["boolean"], True),
        ("False", ["boolean"], False),
        ("1", ["boolean"], "1"),
        ("None", ["null"], None),
        ("null", ["string", "null"], None),
        ("nothing", ["string", "null"], "nothing"),
        ("5", ["string", "integer"], 5),
        ("five", ["string", "integer"], "five"),
        ('{"a": [1]}', ["object"], {"a": [1]}),
        ("{'a': 1}", ["object"], "{'a': 1}"),
        ("[1]", ["object"], "[1]"),
        ('[1, "x"]', ["array"], [1, "x"]),
        ('["\\ud800"]', ["array"], ["\ud800"]),
        ("[" * 3000, ["array"], "[" * 3000),
        ("[1e999]", ["array"], "[1e999]"),
        ('{"a": "x"}', ALL, {"a": "x"}),
        ("", ["integer"], ""),
        ("x", ["of no such kind"], "x"),
    ],
)
def test_a_value_is_read_by_its_types_else_it_is_a_string(text, types, value):
    written = json_of(text, frozenset(types))
    written.encode()  # no half characters
    read = json.loads(written)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "integer"}, {"integer"}),
        ({"type": ["string", "null"]}, {"string", "null"}),
        ({"anyOf": [{"type": "array"}, {"oneOf": [{"type": "null"}]}]}, {"array", "null"}),
        ({"allOf": [{"$ref": "#/$defs/place"}]}, {"object"}),
        ({"$ref": "#/$defs/loop"}, {"string"}),
        ({"$ref": "#/$defs/nothing/there"}, {"string"}),
        ({"$ref": "https://example.com"}, {"string"}),
        ({"enum": [1, 2.5, True, None, "x", [], {}]}, set(ALL)),
        ({"const": 4}, {"integer"}),
        ({"type": "string", "enum": [1]}, {"string"}),
        ({}, {"string"}),
        ({"type": 5, "anyOf": 5, "enum": 5}, {"string"}),
        (True, {"string"}),
    ],
)
def test_the_types_of_a_parameter(schema, types):
    definition = tool("f", p=schema)
    loop = {"$ref": "#/$defs/loop"}
    definition["function"]["parameters"]["$defs"] = {"place": {"type": "object"}, "loop": loop}
    assert parameter_types(definition, "p") == types


def test_references_that_lead_back_are_followed_once(monkeypatch):
    """Ten ways back at each of sixteen levels would be 10^16 steps."""
    steps = []

    def counted(pointer, root):
        steps.append(pointer)
        assert len(steps) <= 2
        return referred(pointer, root)

    referred = values._referred
    monkeypatch.setattr(values, "_referred", counted)
    loops = {"anyOf": [{"$ref": "#/$defs/loop"}] * 10 + [{"$ref": "#/$defs/end"}]}
    definition = tool("f", p={"$ref": "#/$defs/loop"})
    definition["function"]["parameters"]["$defs"] = {"loop": loops, "end": {"type": "integer"}}
    assert parameter_types(definition, "p") == {"integer"}


def test_a_parameter_that_is_not_defined_is_a_string_or_of_the_further_ones():
    open_ended = tool("f")
    open_ended["function"]["parameters"]["additionalProperties"] = {"type": "number"}
    assert parameter_types(open_ended, "p") == {"number"}
    assert parameter_types(tool("f"), "p") == {"string"}
    assert parameter_types({"function": {"name": "f"}}, "p") == {"string"}
    assert parameter_types({"function": {"name": "f", "parameters": None}}, "p") == {"string"}
    assert parameter_types(None, "p") == {"string"}
