"""Answers that are JSON or calls: what a grammar lets come is what a parser of the form reads."""

from __future__ import annotations

import json

import pytest
import torch
from call_texts import RECORDED, RECORDED_CALLS, TOOLS, parsed

pytest.importorskip("xgrammar")

import qwen_style
from hybridspec import assets
from hybridspec.errors import OptionError, RequestError
from hybridspec.text.grammar import Grammars
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools import PARSERS
from hybridspec.text.tools.shapes import opening

V, STOPS = 8192, (8130,)
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
CODER = RECORDED[RECORDED.index("<tool_call>") :]
HERMES = "\n".join(
    f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'
    for name, arguments in RECORDED_CALLS
)
CALLS = {"qwen3_coder": CODER, "hermes": HERMES}
BENT = {  # another function, no call behind its frame, text beside a call
    "qwen3_coder": [
        "<tool_call>\n<function=erase>\n",
        "<tool_call>\n<function=now>\nnow",
        CODER + "\nDone.",
        "I look." + CODER,
    ],
    "hermes": [
        '<tool_call>\n{"name": "erase"',
        '<tool_call>\n{"name": "now", "arguments": [',
        HERMES + "\nDone.",
        "I look." + HERMES,
    ],
}


@pytest.fixture(scope="module", params=CALLS)
def form(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def tokenizer(form) -> Tokenizer:
    own = Tokenizer.from_dir(assets.TARGET)
    made = Tokenizer(own._backend, own.specials, qwen_style.TEMPLATE)
    return made if form == "qwen3_coder" else own


@pytest.fixture(scope="module")
def grammars(tokenizer, form) -> Grammars:
    assert tokenizer.tool_form == form
    return Grammars(tokenizer, V, STOPS)


def goes(grammars, tokenizer, text: str, **options) -> str:
    """How far an answer may be this text: `on`, `whole` (it may also end here), or `not`."""
    walk = grammars.make(SCHEMA, None, TOOLS, **options).walk(STOPS)
    for token in (*tokenizer.encode(text), None):
        row = walk.masks([])[0]
        if token is not None and not int(row[token // 32]) >> token % 32 & 1:
            return "not"
        if token is not None:
            walk.keep([token])
    return "whole" if int(row[STOPS[0] // 32]) >> STOPS[0] % 32 & 1 else "on"


def test_calls_may_come_and_are_read(form, grammars, tokenizer):
    text = CALLS[form]
    assert goes(grammars, tokenizer, text) == "whole"
    assert goes(grammars, tokenizer, text[: text.index("\n<tool_call>")]) == "whole"
    (content, calls), unfinished = parsed(PARSERS[form], [text])
    assert (content, unfinished) == ("", False)
    assert [(name, json.loads(arguments)) for name, arguments in calls] == RECORDED_CALLS


def test_what_is_no_call_may_not_come(form, grammars, tokenizer):
    for text in BENT[form]:
        assert goes(grammars, tokenizer, text) == "not", text


def test_json_may_come_as_without_tools(grammars, tokenizer):
    assert goes(grammars, tokenizer, '{"a": "<tool_call>"}') == "whole"
    for wrong in ('{"b"', "[", "\n", "\n<tool_call>", '{"a": "x"}\n<tool_call>', "Hello"):
        assert goes(grammars, tokenizer, wrong) == "not", wrong
    alone, beside = (grammars.make(SCHEMA, None, tools).walk(STOPS) for tools in (None, TOOLS))
    for token in tokenizer.encode('{\n  "a": "b c"\n}'):
        alone.keep([token])
        beside.keep([token])
        assert torch.equal(alone.masks([]), beside.masks([]))


def test_line_ends_may_stand_between_a_thought_and_the_answer(form, grammars, tokenizer):
    walk = grammars.make(SCHEMA, "</think>", TOOLS).walk(STOPS)
    said = tokenizer.encode(f"Hm.</think>\n\n{CALLS[form]}")
    for token in said:
        words = walk.masks([])
        assert words is None or int(words[0, token // 32]) >> token % 32 & 1
        walk.keep([token])


@pytest.mark.parametrize("name", [None, "now"])
def test_behind_an_opening_a_call_goes_on(form, grammars, tokenizer, name):
    begun = opening(form, name)
    text = CALLS[form][CALLS[form].rindex("<tool_call>") :]
    assert text.startswith(begun)
    assert goes(grammars, tokenizer, text[len(begun) :], opening=begun) == "whole"
    assert goes(grammars, tokenizer, '{"a": "x"}', opening=begun) != "whole"
    assert goes(grammars, tokenizer, "Hello", opening=begun) == "not"


def test_an_opening_of_nothing_that_may_come_is_refused(grammars):
    with pytest.raises(OptionError, match=r"^opening is 'Hello'; expected what"):
        grammars.make(SCHEMA, None, TOOLS, "Hello")


def test_tools_that_cannot_be_used_are_refused(grammars, tokenizer, monkeypatch):
    named = [{"type": "function", "function": {"name": f"f{i}"}} for i in range(2001)]
    grammars.make(SCHEMA, None, named[1:])
    with pytest.raises(OptionError, match=r"^tools are too many beside a schema; expected at most"):
        grammars.make(SCHEMA, None, named)
    long = [{"type": "function", "function": {"name": "f" * 65_537}}]
    with pytest.raises(OptionError, match=r"^tools are too many beside a schema"):
        grammars.make(SCHEMA, None, long)
    with pytest.raises(RequestError, match="is no function"):
        grammars.make(SCHEMA, None, [{"type": "web"}])
    monkeypatch.setattr(tokenizer, "_chat", None)
    with pytest.raises(OptionError, match=r"^tools are given, but the chat template has no place"):
        grammars.make(SCHEMA, None, TOOLS)
