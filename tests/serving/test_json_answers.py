"""JSON mode and schemas through the server; exactness of the masks is the engine's tests'."""

from __future__ import annotations

import json

import pytest
from test_chat_route import GARDEN, ask, joined, stream

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
        engine, "grammar", lambda s, after=None: seen.append(after) or real(s, after=after)
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
