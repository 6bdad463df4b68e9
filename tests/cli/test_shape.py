"""`generate` with penalties, biases and JSON: as the engine's, and refusals before weights load."""

from __future__ import annotations

import json

import pytest

from disk_pair import token_id
from hybridspec import Engine, SamplingParams

OPTIONS = ("--presence-penalty", "1.5", "--frequency-penalty", "0.5", "--repetition-penalty", "1.2")


@pytest.mark.parametrize("system", ["ar", "static:5"])
def test_penalties_are_the_engines(command, pair, system):
    options = pair("random").options
    got = command("generate", "x", "--raw", "-n", "30", "--json", "--system", system, *OPTIONS,
                  *options).json  # fmt: skip
    named = dict(zip(options[::2], options[1::2], strict=True))
    params = SamplingParams(30, presence_penalty=1.5, frequency_penalty=0.5, repetition_penalty=1.2)
    engine = Engine.load(named["--model"], named["--draft"], progress=False)
    assert got["token_ids"] == list(engine.generate("x", params, system="ar").token_ids)
    plain = engine.generate("x", SamplingParams(30), system="ar").token_ids
    assert got["token_ids"] != list(plain)


def test_biases(command, pair):
    q, z = token_id(ord("q")), token_id(ord("y"))
    got = command("generate", "x", "--raw", "-n", "4", "--logit-bias", f"{q}:100", "--logit-bias",
                  f"{z}:-100", *pair("cycle").options)  # fmt: skip
    assert got.out == "qqqq\n"


@pytest.mark.parametrize("value", ["5", "x:1", "5:x", "5:1:2", ""])
def test_a_bias_of_another_form(command, value):
    command("generate", "x", "--logit-bias", value).refused("--logit-bias is", "such as 42:-5")


def test_numbers_out_of_range_name_their_flag(command):
    command("generate", "x", "--presence-penalty", "3").refused("--presence-penalty is 3.0;")
    command("generate", "x", "--logit-bias", "3:500").refused("--logit-bias gives token 3 500.0;")


def test_an_answer_by_a_schema(command, tmp_path):
    pytest.importorskip("xgrammar")
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"type": "object", "properties": {"age": {"type": "integer",
                    "minimum": 1, "maximum": 9}}, "required": ["age"]}))  # fmt: skip
    got = command("generate", "How old?", "-n", "60", "--json-schema", str(file))
    assert got.code == 0
    assert 1 <= json.loads(got.out)["age"] <= 9


def test_any_object_after_a_thought(command):
    """The thought is free; its end is forced here, and then comes an object."""
    pytest.importorskip("xgrammar")
    end = Engine.load(progress=False).tokenizer.token_id("</think>")
    got = command("generate", "How old?", "-n", "6", "--thinking", "--json-mode", "--json",
                  "--logit-bias", f"{end}:100").json  # fmt: skip
    assert got["token_ids"][0] == end
    assert got["text"].removeprefix("</think>").startswith("{")


def test_schemas_that_cannot_be_used(command, tmp_path):
    file = tmp_path / "schema.json"
    command("generate", "x", "--json-schema", str(file)).refused("cannot be read: No such file")
    for text, said in (("{", "cannot be read: Expecting"), ("[1]", "holds no JSON object"),
                       ("[" * 100_000, "cannot be read")):  # fmt: skip
        file.write_text(text)
        command("generate", "x", "--json-schema", str(file)).refused("--json-schema", said)
    command("generate", "x", "--json-mode", "--json-schema", "x").refused("give one")
    pytest.importorskip("xgrammar")
    file.write_text('{"not": {}}')
    command("generate", "x", "--json-schema", str(file)).refused("--json-schema uses 'not'")
