from __future__ import annotations

import json

import pytest
from call_texts import RECORDED, RECORDED_CALLS, TOOLS, cut, parsed
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.text.tools.coder import CoderParser


def parse(*pieces: str):
    """Content and calls with their arguments read."""
    (content, calls), unfinished = parsed(CoderParser, pieces)
    assert not unfinished
    return content, [(name, json.loads(arguments)) for name, arguments in calls]


def call(body: str, name: str = "write_file") -> str:
    return f"<tool_call>\n<function={name}>\n{body}</function>\n</tool_call>"


RESULT = ("I shall write the file, then look at the clock.", RECORDED_CALLS)


def test_a52_a_recorded_answer_cut_at_every_character():
    assert parse(RECORDED) == RESULT
    for at in range(len(RECORDED)):
        assert parse(RECORDED[:at], RECORDED[at:]) == RESULT


def test_a52_a_recorded_answer_in_blocks_of_tokens(tokenizer):
    """Cut at every token, and in blocks of 1 to 16 tokens, as rounds give them."""
    ids = tokenizer.encode(RECORDED)
    for width in range(1, 17):
        reader = tokenizer.detokenizer()
        pieces = [reader.push(ids[i : i + width]) for i in range(0, len(ids), width)]
        assert parse(*pieces, reader.flush()) == RESULT
    for at in range(len(ids)):
        reader = tokenizer.detokenizer()
        assert parse(reader.push(ids[:at]), reader.push(ids[at:]), reader.flush()) == RESULT


PARTS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<function=write_file>",
        "<function=other>",
        "</function>",
        "<parameter=text>",
        "<parameter=mode>",
        "<parameter=options>",
        "</parameter>",
        "<function=",
        "<para",
        ">",
        "\n",
        "\n\n",
        " " * 70,
        "1",
        '{"a": 1}',
        'x"\\',
        "é",
        "<",
    ]
)
FORMED = st.lists(
    st.tuples(st.sampled_from(["text", "mode", "options", "none"]), st.lists(PARTS, max_size=4)),
    max_size=3,
).map(lambda rows: call("".join(f"<parameter={p}>\n{''.join(v)}\n</parameter>\n" for p, v in rows)))
TEXTS = st.lists(st.one_of(PARTS, FORMED), max_size=14).map("".join)


@settings(max_examples=500, deadline=None)
@given(TEXTS, st.lists(st.integers(0, 400), max_size=8))
def test_any_cut_gives_what_one_push_gives(text, places):
    whole = parsed(CoderParser, [text])
    assert parsed(CoderParser, cut(text, places)) == whole
    assert parsed(CoderParser, list(text)) == whole


@settings(max_examples=400, deadline=None)
@given(TEXTS)
def test_arguments_are_json_unless_the_answer_ends_within_them(text):
    (_, calls), unfinished = parsed(CoderParser, [text])
    for _, arguments in calls[: len(calls) - unfinished]:
        assert isinstance(json.loads(arguments), dict)
    if unfinished:
        with pytest.raises(ValueError, match=r".*"):
            json.loads(calls[-1][1])


@settings(max_examples=500, deadline=None)
@given(st.text(st.sampled_from('ab\n <>/="\\{é'), max_size=40), st.lists(st.integers(0, 99)))
def test_a_string_is_what_stands_between_the_tags(value, places):
    text = call(f"<parameter=text>\n{value}\n</parameter>\n")
    assert parse(*cut(text, places)) == ("", [("write_file", {"text": value})])


# ---- content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (" Just text.\n", " Just text.\n"),
        ("<tool_call> is a tag", "<tool_call> is a tag"),
        ("a \n<tool_call>\n{}", "a \n<tool_call>\n{}"),
        ("<tool_call>\n<function=now>\nhello", "<tool_call>\n<function=now>\nhello"),
        ("<tool_call>\n<function=>\n</function>", "<tool_call>\n<function=>\n</function>"),
        ("<tool_call>\n<function=no", "<tool_call>\n<function=no"),
        ("x\n\n<tool_ca", "x\n\n<tool_ca"),
        ("</function></tool_call>", "</function></tool_call>"),
    ],
)
def test_what_is_no_call_is_content(text, content):
    assert parse(text) == parse(*text) == (content, [])


def test_text_before_between_and_after_calls_stays():
    now = call("", "now")
    text = f"  One\n\n{now}\n\nTwo <tool_call>\n{now}{now}\n\n three\n"
    calls = [("now", {})] * 3
    assert parse(text) == parse(*text) == ("  OneTwo <tool_call>three\n", calls)


def test_no_more_is_held_back_than_may_be_a_tag():
    parser = CoderParser(TOOLS)
    given = ["Hi", " ", "there <", "tool", "box> \n", "<tool_call>", "<function=now>", "</", "x"]
    said = [parser.push(text).content for text in given]
    head = " \n<tool_call><function=now></x"
    assert said == ["Hi", "", " there", "", " <toolbox>", "", "", "", head]


def test_a_string_is_streamed_and_the_name_comes_first():
    parser = CoderParser(TOOLS, lambda: "an id")
    pieces = [
        "<tool_call>\n<function=write_file>\n",
        "<parameter=text>",
        "\n",
        "one\n",
        "two",
        "\n",
    ]
    seen = [parser.push(piece).calls for piece in pieces]
    assert seen[0] == ()
    (first, opening) = seen[1]
    assert (first.index, first.id, first.name, first.arguments) == (0, "an id", "write_file", "{")
    assert opening.arguments == '"text": "'
    assert [[c.arguments for c in calls] for calls in seen[2:]] == [[], ["one"], ["\\ntwo"], []]


# ---- what models get wrong


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call><function=write_file><parameter=text>a</parameter></function></tool_call>",
        "<tool_call>\n<function=write_file>\n<parameter=text>\na\n</parameter>\n</tool_call>",
        "<tool_call>\n<function=write_file>\n<parameter=text>\na\n</function>\n</tool_call>",
        "<tool_call>\n<function=write_file>\n<parameter=text>\na\n</parameter>\n</function>",
        "<tool_call>\n<function= write_file >\n<parameter= text >\na\n</parameter>\n</function>\n",
    ],
)
def test_what_is_tolerated(text):
    assert parse(text) == parse(*text) == ("", [("write_file", {"text": "a"})])


def test_two_functions_in_a_call():
    text = "<tool_call>\n<function=now>\n</function>\n<function=now>\n</function>\n</tool_call>done"
    assert parse(text) == parse(*text) == ("done", [("now", {}), ("now", {})])


def test_a_function_or_a_parameter_nobody_defined_has_strings():
    body = "<parameter=mode>\n1\n</parameter>\n<parameter=new>\n1\n</parameter>\n"
    calls = [("other", {"mode": "1", "new": "1"}), ("write_file", {"mode": 1, "new": "1"})]
    assert parse(call(body, "other") + call(body)) == ("", calls)


def test_tags_within_a_value_are_text():
    value = "</parameter>\n</func\n<parameter=x>\n</tool_call> </function> </parameter> <tool_call>"
    text = call(f"<parameter=text>\n{value}\n</parameter>\n")
    assert parse(text) == parse(*text) == ("", [("write_file", {"text": value})])


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("<parameter=text>\nhalf a li", '{"text": "half a li'),
        ("<parameter=text>\nhalf\n</param", '{"text": "half\\n</param'),
        ("<parameter=text>", '{"text": "'),
        ("<parameter=mode>\n12", '{"mode": 12'),
        ("<parameter=mode>\n1\n</parameter>\n<parameter=tags>\n[1, ", '{"mode": 1, "tags": [1, '),
    ],
)
def test_an_unfinished_call_leaves_its_arguments_unfinished(body, arguments):
    text = f"<tool_call>\n<function=write_file>\n{body}"
    expected = (("", [("write_file", arguments)]), True)
    assert parsed(CoderParser, [text]) == parsed(CoderParser, list(text)) == expected


def test_long_values_cost_in_proportion():
    """Nothing grows with what is already out: what is held stays short."""
    parser = CoderParser(TOOLS)
    parser.push("<tool_call>\n<function=write_file>\n<parameter=text>\n")
    for _ in range(3000):
        parser.push("a line\n</parameter> <\n")
        assert len(parser._text) < 600
