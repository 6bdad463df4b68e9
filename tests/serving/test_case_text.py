"""Tool calls, thoughts, JSON and characters cut anywhere, on every system's server (A52-A56)."""

from __future__ import annotations

import json
import random

import pytest
from casebook import Case, crossed
from heard import TEXT

import qwen_style
from hybridspec.engine import Engine
from scripted_text import RIGHT, TOOLS

ARGUMENTS = {"text": '"é"\n</parameter>.', "n": 7}
TAGS = (
    "<tool_call>\n<function=save>\n<parameter=text>\n"
    f"{ARGUMENTS['text']}\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>"
)
OBJECT = f"<tool_call>\n{json.dumps({'name': 'save', 'arguments': ARGUMENTS})}\n</tool_call>"
THOUGHT, SAID, AFTER = "Save it.", "Saving:", "Both."
THINK = {"enable_thinking": True}
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
BY_SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
JSON = {"response_format": BY_SCHEMA, "max_tokens": 60}


def called(count, text, reasoning="", reason="tool_calls"):
    def holds(choice):
        assert [call["name"] for call in choice["calls"]] == ["save"] * count
        assert [json.loads(call["arguments"]) for call in choice["calls"]] == [ARGUMENTS] * count
        assert (choice["text"], choice["reasoning"]) == (text, reasoning)
        assert choice["finish_reason"] == reason

    return holds


def calls(call, plan=(RIGHT,), template=None, count=1, **more):
    says = f"{THOUGHT}\n</think>\n\n{SAID}" + f"\n{call}" * count
    holds = called(count, SAID, THOUGHT)
    return Case({"tools": TOOLS, **THINK}, says, holds, plan, template=template, **more)


def one_call(call, template=None, plan=(RIGHT,), limit=400, reason="tool_calls", **more):
    """What follows the first call, up to the token that shows a second, in whatever block."""
    body = {"tools": TOOLS, "parallel_tool_calls": False, "logprobs": True, "max_tokens": limit}
    says = f"{SAID}\n{call}\nAnd:\n{call}\n{AFTER}"
    holds = called(1, f"{SAID}And:", reason=reason)
    return Case(body, says, holds, plan, template=template, **more)


def spoken(text):
    def holds(choice):
        assert choice["text"] == text

    return holds


def by_schema(choice):
    """The block `[x, </think>, {, bad]`: `bad` is refused."""
    assert choice["reasoning"] == '{"no": "grammar"}'
    assert list(json.loads(choice["text"])) == ["n"]
    assert choice["finish_reason"] == "stop"


def odd_ids(seed):
    """Parts of characters mixed with whole words: bytes that are often no UTF-8."""
    drawn = random.Random(seed)
    return tuple(drawn.choice((*PARTS, *WORDS[: len(PARTS) // 2])) for _ in range(30))


def one_shot(ids):
    def holds(choice):
        assert choice["token_ids"] == [*ids, *choice["token_ids"][len(ids) :]]
        assert choice["text"] == TOKENIZER.decode(ids)

    return holds


TOKENIZER = Engine.load(progress=False).tokenizer
PARTS = [i for i in range(8128) if "\ufffd" in TOKENIZER.decode([i])]
WORDS = [i for i in range(1000, 1200) if i not in PARTS]
ONE_CALL = len(TOKENIZER.encode(f"{SAID}\n{OBJECT}\nAnd:\n{OBJECT}"))  # through the second
CHARACTERS = "Grüße, 東京 🌱🌿👩‍🚀 und é"
ODD = {seed: odd_ids(seed) for seed in range(6)}
STYLED = {"template": qwen_style.TEMPLATE}
STARTS = {f"{n}-then-all": (n, *[RIGHT] * 30) for n in (0, 3, 6, 9, 12)}
CASES = {
    "a52-tags": calls(TAGS, **STYLED),
    "a52-object": calls(OBJECT, daily=False),
    "a52-two-tags": calls(TAGS, **STYLED, count=2, daily=False),
    "a52-two-objects": calls(OBJECT, count=2, daily=False),
    **{f"a52-tags-{n}": calls(TAGS, (n,), **STYLED, daily=n == 2) for n in range(16)},
    **{f"a52-object-{n}": calls(OBJECT, (n,), daily=False) for n in (0, 1, 4, 9)},
    **{f"a52-tags-{n}": calls(TAGS, p, **STYLED, daily=False) for n, p in STARTS.items()},
    "a52-one-call-tags": one_call(TAGS, **STYLED),
    "a52-one-call-object": one_call(OBJECT, daily=False),
    "a52-one-call-mixed": one_call(TAGS, **STYLED, plan=(4, 1, 11)),
    # The block that shows the second call crosses the limit too.
    **{
        f"a52-one-call-limit-{n}": one_call(OBJECT, limit=ONE_CALL + n, daily=n == 1)
        for n in (0, 1, 3)
    },
    # A limit within the second call, of which nothing is said.
    **{
        f"a52-one-call-cut-{n}": one_call(OBJECT, limit=ONE_CALL - n, reason="length", daily=n == 2)
        for n in (2, 4, 12, 20)
    },
    "a53-schema": Case(
        {**JSON, **THINK},
        '{"no": "grammar"}\n</think>{bad": ' + "5}" * 20,
        by_schema,
    ),
    "a53-tools": Case({**JSON, "tools": TOOLS}, '{"n": 5}', spoken('{"n": 5}'), **STYLED),
    "a53-call": Case({**JSON, "tools": TOOLS}, TAGS, called(1, ""), **STYLED, daily=False),
    **{
        f"a56-{n}": Case({}, CHARACTERS, spoken(CHARACTERS), (n,), daily=n == 1)
        for n in (0, 1, 2, 3, 15)
    },
    "a56-cut": Case({"max_tokens": 16}, CHARACTERS, spoken("Grüße, 東京 \ufffd")),
    "a56-stop": Case({"stop": ["🌿"]}, CHARACTERS, spoken("Grüße, 東京 🌱")),
    **{
        f"a56-odd-{n}": Case({}, ids, one_shot(ids), (2, 9, 0), daily=n == 0)
        for n, ids in ODD.items()
    },
    "a56-odd-completion": Case(
        {"max_tokens": 30}, ODD[1], one_shot(ODD[1]), (5, 1), TEXT, daily=False
    ),
}


@crossed(CASES, "a56-stop")
def test_what_is_said_is_plain_decodings(book, case, system, sampling, form):
    if "response_format" in case.body:
        pytest.importorskip("xgrammar")
    book.check(case, system, sampling, form)
