"""JSON mode and schemas through the server; exactness of the masks is the engine's tests'."""

from __future__ import annotations

import json

import pytest
from test_chat_route import GARDEN, ask, joined, stream
from test_spoken import ARGUMENTS, BLOCKS, TOOLS, calls

from hybridspec.text.tools.shapes import opening
from scripted_text import RIGHT

pytest.importorskip("xgrammar")

SCHEMA = {
    "type": "object",
    "properties": {"plant": {"enum": ["rose", "oak"]}, "count": {"type": "integer", "maximum": 9}},
    "required": ["plant", "count"],
}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "plants", "schema": SCHEMA}}


@pytest.mark.parametrize("system", ["ar", "static:4", "dflash"])
def test_an_answer_by_a_schema_is_of_it(client, system):
    body = {"response_format": BY_SCHEMA, "temperature": 0, "max_tokens": 200, "system": system}
    body["frequency_penalty"] = 2  # or the toy writes all the spaces that it may
    choice = ask(client, **body)["choices"][0]
    answer = json.loads(choice["message"]["content"])
    assert answer["plant"] in ("rose", "oak")
    assert answer["count"] <= 9
    assert choice["finish_reason"] == "stop"
    assert joined(stream(client, **body)) == choice["message"]["content"]


def test_an_object_is_any_object(client):
    body = {"response_format": {"type": "json_object"}, "temperature": 0, "max_tokens": 12}
    assert ask(client, **body)["choices"][0]["message"]["content"].startswith("{")


def test_a_grammar_begins_after_the_thought(client, engine, monkeypatch):
    seen = []
    real = engine.grammar
    monkeypatch.setattr(
        engine,
        "grammar",
        lambda s, after, **more: seen.append(after) or real(s, after=after, **more),
    )
    for thinking in (True, False):
        ask(client, GARDEN, response_format=BY_SCHEMA, enable_thinking=thinking, max_tokens=2)
    assert seen == ["</think>", None]


def test_text_is_text(client):
    plain = ask(client, temperature=0, max_tokens=9)["choices"]
    assert (
        ask(client, temperature=0, max_tokens=9, response_format={"type": "text"})["choices"]
        == plain
    )


CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": 3}}\n</tool_call>'
ROSE = '{"plant": "rose", "count": 4}'
TEXT = '{"a": "<tool_call>{}</tool_call> <tool_call>"}'
BOTH = {"response_format": BY_SCHEMA, "tools": TOOLS, "max_tokens": 200}


def test_without_a_choice_of_tools_the_schema_holds(client, script):
    script(CALL)
    body = {**BOTH, "tool_choice": "none", "frequency_penalty": 2, "temperature": 0}
    choice = ask(client, **body)["choices"][0]
    assert json.loads(choice["message"]["content"])["plant"] in ("rose", "oak")
    assert "tool_calls" not in choice["message"]


@pytest.mark.parametrize(("system", "plan"), BLOCKS[::3])
def test_an_answer_is_a_call_or_by_the_schema(client, script, system, plan):
    script(CALL, plan)
    choice = ask(client, **BOTH, system=system)["choices"][0]
    [call] = choice["message"]["tool_calls"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    [call] = calls(stream(client, **BOTH, system=system)).values()
    assert (call["name"], json.loads(call["arguments"])) == ("weather", ARGUMENTS)
    script(ROSE, plan)
    choice = ask(client, **BOTH, system=system)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (ROSE, "stop")
    assert joined(stream(client, **BOTH, system=system)) == ROSE


@pytest.mark.parametrize("system", ["ar", "dflash"])
def test_what_is_neither_does_not_come(client, script, system):
    """Text before a call, a function that is not there, a value that is none of the schema's."""
    for said in (f"I look. {CALL}", CALL.replace("weather", "erase"), ROSE.replace("rose", "elm")):
        script(said)
        body = {**BOTH, "system": system, "temperature": 0, "frequency_penalty": 2}
        message = ask(client, **body)["choices"][0]["message"]
        if message["content"] is not None:
            assert json.loads(message["content"])["plant"] in ("rose", "oak")
        assert {c["function"]["name"] for c in message.get("tool_calls", [])} <= {"weather"}


def test_the_mark_of_a_call_is_text_in_json(client, script):
    script(TEXT)
    body = {"response_format": {"type": "json_object"}, "tools": TOOLS, "max_tokens": 99}
    assert ask(client, **body)["choices"][0]["message"]["content"] == TEXT
    assert joined(stream(client, **body)) == TEXT


@pytest.mark.parametrize("thinking", [False, True])
def test_a_thought_stands_before_either(client, script, thinking):
    thought = "Hm, {a} <tool_call>.\n</think>\n\n" if thinking else ""
    script(f"{thought}{CALL}", (2, 0, RIGHT))
    message = ask(client, **BOTH, enable_thinking=thinking)["choices"][0]["message"]
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == ARGUMENTS
    assert message.get("reasoning_content") == ("Hm, {a} <tool_call>." if thinking else None)


@pytest.mark.parametrize("named", [False, True])
def test_an_answer_that_must_be_a_call_is_nothing_else(client, script, named):
    """Without a schema the text behind the call would be content."""
    script(CALL[len(opening("hermes", "weather" if named else None)) :] + " Well, well.")
    wanted = {"type": "function", "function": {"name": "weather"}} if named else "required"
    choice = ask(client, **BOTH, tool_choice=wanted)["choices"][0]
    [call] = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")
