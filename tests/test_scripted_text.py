"""Thoughts and tool calls in answers that come in real rounds, through every kind of system."""

from __future__ import annotations

import json
from itertools import count

import pytest

import qwen_style
from hybridspec.core import SamplingParams
from hybridspec.text.reasoning import ReasoningCounter, ReasoningSplitter, thought_after
from hybridspec.text.tools import PARSERS
from scripted_text import RIGHT, TOOLS, say, text_engine

SYSTEMS = ["ar", "static:4", "static:16", "dflash", "replayssm", "hybridspec", "auto"]
ARGUMENTS = {"text": 'A "song" in two lines,\nwith an é. </parameter>', "n": 7}
CALL = (
    "<tool_call>\n<function=save>\n<parameter=text>\n"
    f"{ARGUMENTS['text']}\n</parameter>\n<parameter=n>\n7\n</parameter>\n</function>\n</tool_call>"
)
THOUGHT, SAID = "I could save it.\nTwice even.", "Saving:"
ANSWER = f"{THOUGHT}\n</think>\n\n{SAID}\n\n{CALL}\n{CALL}"
ASKED = [{"role": "user", "content": "Save a song."}]


@pytest.fixture(scope="module")
def engine():
    return text_engine(qwen_style.TEMPLATE, max_context=512)


def heard(engine, system, params):
    """Everything that a server makes of one answer, in rounds."""
    ids = engine.encode(ASKED, tools=TOOLS, enable_thinking=True)
    thought = thought_after(engine.tokenizer.decode(ids[-8:]))
    splitter, counter = (
        ReasoningSplitter(thought),
        ReasoningCounter(engine.tokenizer.token_bytes, thought),
    )
    numbers = count()
    parser = PARSERS[engine.tokenizer.tool_form](TOOLS, lambda: str(next(numbers)))
    stream = engine.stream(ids, params, system=system)
    reasoning, content, calls, widths = "", "", {}, set()
    for piece in stream:
        counter.push(piece.token_ids)
        widths.add(len(piece.token_ids))
        split = splitter.push(piece.text)
        parts = [(split, parser.push(split.content))]
        if stream.finished:
            split = splitter.finish()
            parts += [(split, parser.push(split.content)), (split, parser.finish())]
        for split, delta in parts:
            reasoning, content = reasoning + split.reasoning, content + delta.content
            for call in delta.calls:
                calls[call.index] = calls.get(call.index, "") + call.arguments
    return reasoning, content, calls, counter.count, widths, stream.result()


@pytest.mark.parametrize("plan", [(RIGHT,), (0, 3, 1, 15, 7)], ids=["right", "errors"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a52_the_same_calls_whatever_the_rounds(engine, system, plan):
    ids = say(engine, ANSWER, plan)
    for params in (SamplingParams(), SamplingParams(temperature=1.0, seed=3)):
        reasoning, content, calls, thinking, widths, answer = heard(engine, system, params)
        assert (reasoning, content) == (THOUGHT, SAID)
        assert [json.loads(calls[i]) for i in range(2)] == [ARGUMENTS] * 2
        assert list(answer.token_ids[:-1]) == ids
        assert answer.finish_reason == "stop"
        assert thinking == ids.index(engine.tokenizer.encode("</think>")[0]) + 1
        assert (max(widths) > 2) == (system != "ar" and max(widths) > 1)


def test_a_block_holds_the_end_of_the_thought_and_more(engine):
    """What the tests above are about happens: `</think>` in the midst of a round."""
    ids = say(engine, ANSWER)
    end = ids.index(engine.tokenizer.encode("</think>")[0])
    inside = set()
    for piece in engine.stream(ASKED, system="static:16", enable_thinking=True):
        if ids[end] in piece.token_ids:
            inside.add((piece.token_ids.index(ids[end]), len(piece.token_ids)))
    ((place, width),) = inside
    assert 0 < place < width - 1


@pytest.mark.parametrize("system", ["ar", "static:4", "dflash"])
def test_a09_reasoning_tokens_never_exceed_the_cap(engine, system):
    ids = say(engine, ANSWER)
    end = ids.index(engine.tokenizer.encode("</think>")[0]) + 1
    for cap in (1, end - 1, end, end + 1, end + 2):
        *_, thinking, _, answer = heard(engine, system, SamplingParams(max_tokens=cap))
        assert thinking == min(cap, end)
        assert len(answer.token_ids) == cap


def test_a53_what_a_grammar_refuses_behind_a_thought_is_the_same_in_every_system(engine):
    """The block `[x, </think>, {, bad]`: `bad` is refused, and so is an end within the object."""
    pytest.importorskip("xgrammar")
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    grammar = engine.grammar(schema, after="</think>")
    ids = say(engine, '{"no": "grammar yet"}\n</think>{bad": ' + "5}" * 30)
    params = SamplingParams(max_tokens=len(ids))
    answers = {
        system: engine.generate(ASKED, params, system=system, grammar=grammar) for system in SYSTEMS
    }
    end = ids.index(engine.tokenizer.encode("</think>")[0]) + 1
    plain = answers["ar"]
    assert plain.token_ids[:end] == tuple(ids[:end])
    assert plain.token_ids != tuple(ids)
    thought, said = plain.text.split("</think>")
    assert thought == '{"no": "grammar yet"}\n'
    assert plain.finish_reason == "stop"
    assert list(json.loads(said)) == ["n"]
    assert {system: answer.token_ids for system, answer in answers.items()} == dict.fromkeys(
        SYSTEMS, plain.token_ids
    )
