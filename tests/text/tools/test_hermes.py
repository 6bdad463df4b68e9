from __future__ import annotations

import json

import pytest
from call_texts import cut, parsed
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.text.tools.hermes import HermesParser

ARGUMENTS = {"text": 'a "quoted"\n</tool_call> 日本', "n": [1, {"x": None}]}
CALL = json.dumps({"name": "f", "arguments": ARGUMENTS}, ensure_ascii=False)
RECORDED = f"Text first.\n<tool_call>\n{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>\nThen."


def parse(*pieces: str):
    (content, calls), unfinished = parsed(HermesParser, pieces)
    assert not unfinished
    return content, [(name, json.loads(arguments)) for name, arguments in calls]


def test_a52_a_recorded_answer_cut_anywhere(tokenizer):
    result = ("Text first.Then.", [("f", ARGUMENTS)] * 2)
    assert parse(RECORDED) == parse(*RECORDED) == result
    for at in range(len(RECORDED)):
        assert parse(RECORDED[:at], RECORDED[at:]) == result
    ids = tokenizer.encode(RECORDED)
    for width in range(1, 17):
        reader = tokenizer.detokenizer()
        pieces = [reader.push(ids[i : i + width]) for i in range(0, len(ids), width)]
        assert parse(*pieces, reader.flush()) == result


PARTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        CALL,
        CALL[:9],
        '{"name": "',
        '"}',
        "\n",
        " ",
        "a",
        "<",
        "[",
        "{}",
    ]
)


@settings(max_examples=1500, deadline=None)
@given(st.lists(PARTS, max_size=12).map("".join), st.lists(st.integers(0, 400), max_size=8))
def test_any_cut_gives_what_one_push_gives(text, places):
    whole = parsed(HermesParser, [text])
    assert parsed(HermesParser, cut(text, places)) == parsed(HermesParser, list(text)) == whole


@pytest.mark.parametrize(
    "text",
    [
        "a <tool_call>\nis a tag",
        "<tool_call>\n[1]\n</tool_call>",
        '<tool_call>\n{"name": "f", "arguments": [1]}\n</tool_call>',
        '<tool_call>\n{"name": 5, "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "f\\ud800", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"arguments": {}}\n</tool_call> and so on',
        '<tool_call>\n{"name": "f", "arguments": {"x": NaN}}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": {"x": 1e999}}\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": {"x": 1\n</tool_call>',
        '<tool_call>\n{"name": "f", "arguments": {"x": "half',
        "<tool_call>" + '{"a": ' * 3000 + "</tool_call>",
        "\n\n<tool_call>",
    ],
)
def test_what_is_no_call_is_content(text):
    assert parse(text) == parse(*text) == (text, [])


def test_what_is_tolerated():
    assert parse('<tool_call>{"name": "f"}</tool_call>') == ("", [("f", {})])
    text = '<tool_call>{"name": "f", "arguments": {"x": "a\nb"}}'  # no end tag; a bare line end
    assert parse(text) == parse(*text) == ("", [("f", {"x": "a\nb"})])


def test_a_tag_in_prose_does_not_hold_the_answer_back():
    parser = HermesParser()
    assert parser.push("The tag <tool_call> opens").content == "The tag <tool_call> opens"
