"""Tools and their calls through a template in the style of Qwen3.5's, and what refuses them."""

from __future__ import annotations

import json

import pytest
from call_texts import RECORDED, RECORDED_CALLS, TOOLS, joined

import qwen_style
from hybridspec.errors import RequestError
from hybridspec.text.chat import ChatTemplate
from hybridspec.text.messages import as_text
from hybridspec.text.prompt import encode_prompt
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools import PARSERS

USER = {"role": "user", "content": "Write it."}
CALLS = [
    {"id": f"call_{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
    for i, (n, a) in enumerate(RECORDED_CALLS)
]
TURNS = [
    USER,
    {"role": "assistant", "content": RECORDED.split("\n\n<tool_call>")[0], "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "call_0", "content": "written"},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "noon"}]},
]


@pytest.fixture(scope="module")
def qwen(tokenizer_dir):
    source = Tokenizer.from_dir(tokenizer_dir)
    specials = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    return Tokenizer(source._backend, specials, qwen_style.TEMPLATE)


def encoded(tokenizer, prompt, **options):
    return tokenizer.decode(encode_prompt(prompt, tokenizer, 10_000, **options), False)


def test_a_call_is_rendered_as_the_model_wrote_it_and_its_results_after_it(qwen):
    """What is sent back lays out as the answer did: the next turn continues the same text."""
    text = encoded(qwen, TURNS, tools=TOOLS, enable_thinking=True)
    thought = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    results = (
        "<|im_start|>user\n<tool_response>\nwritten\n</tool_response>\n"
        "<tool_response>\nnoon\n</tool_response><|im_end|>\n"
    )
    assert text.endswith(
        f"{thought}{RECORDED}<|im_end|>\n{results}<|im_start|>assistant\n<think>\n"
    )
    assert text.startswith("<|im_start|>system\n# Functions\n<tools>\n" + json.dumps(TOOLS[0]))


def test_what_the_parser_gives_can_be_sent_back(qwen):
    parser = PARSERS[qwen.tool_form](TOOLS, iter(["id0", "id1"]).__next__)
    content, calls = joined([parser.push(RECORDED), parser.finish()])
    sent = [{"function": {"name": name, "arguments": given}} for name, given in calls]
    turns = [USER, {"role": "assistant", "content": content, "tool_calls": sent}]
    assert RECORDED in encoded(qwen, turns, tools=TOOLS)


def test_the_form_of_calls_is_the_template_s(qwen, tokenizer):
    assert qwen.tool_form == "qwen3_coder"
    assert tokenizer.tool_form == "hermes"
    assert ChatTemplate("{{ messages[0].content }} <function=", {}).tool_form is None
    assert Tokenizer(tokenizer._backend).tool_form is None


def test_arguments_become_objects_and_the_input_is_left_alone():
    for given in ('{"a": 1}', {"a": 1}):
        call = {"id": "x", "function": {"name": "f", "arguments": given}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        (plain,) = as_text([message])
        assert plain["tool_calls"] == [
            {"id": "x", "function": {"name": "f", "arguments": {"a": 1}}}
        ]
        assert (plain["content"], call["function"]["arguments"]) == ("", given)
    for given in ({}, {"arguments": None}, {"arguments": ""}):
        call = {"function": {"name": "f", **given}}
        (plain,) = as_text([{"role": "assistant", "tool_calls": [call]}])
        assert plain["tool_calls"][0]["function"]["arguments"] == {}


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_calls_are_left_out(nothing):
    message = {"role": "assistant", "content": "x"}
    assert as_text([message | {"tool_calls": nothing}, USER | {"tool_calls": nothing}]) == [
        message,
        USER,
    ]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            {"role": "user", "tool_calls": CALLS},
            r"\(user\) has tool_calls .* assistant only",
        ),
        ({"tool_calls": {"function": {}}}, r"Message 0 \(assistant\) has tool_calls .* a list"),
        ({"tool_calls": ["f"]}, "Message 0 has the tool call 'f'; expected an object such as"),
        ({"tool_calls": [{"name": "f"}]}, "Message 0 has the tool call"),
        ({"tool_calls": [{"function": {"name": 5}}]}, "Message 0 has the tool call"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}, "Message 0 calls f with"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "[1]"}}]}, "a JSON object"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": [1]}}]}, "a JSON object"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": "[" * 9000}}]}, "a JSON object"),
    ],
)
def test_calls_that_are_none_are_refused(message, told):
    with pytest.raises(RequestError, match=told):
        as_text([{"role": "assistant", "content": "x", **message}])


def test_tools_that_cannot_be_honoured_are_refused(qwen, tokenizer):
    plain = Tokenizer(tokenizer._backend, {}, "{{ messages[0].content }}")
    with pytest.raises(RequestError, match="no place for tools, so the model would not see them"):
        encoded(plain, [USER], tools=TOOLS)
    assert encoded(plain, [USER], tools=[]) == encoded(plain, [USER]) == "Write it."
    for prompt in ("Write it.", [1, 2]):
        with pytest.raises(RequestError, match="Tools are for a chat"):
            encoded(qwen, prompt, tools=TOOLS)
    with pytest.raises(RequestError, match="Tool 0 is no function"):
        encoded(qwen, [USER], tools=[5])
    assert "# Functions" in encoded(qwen, "Write it.", tools=TOOLS, chat=True)


def test_a_template_s_own_refusal_is_a_sentence(qwen):
    with pytest.raises(RequestError, match="these messages: There is no question of a user"):
        encoded(qwen, TURNS[2:], tools=TOOLS)


def test_the_embedded_template_takes_tools():
    from hybridspec.sources import find_pair

    folder, _ = find_pair(None, None, None, None)
    tokenizer = Tokenizer.from_dir(folder)
    assert tokenizer.tool_form == "hermes"
    text = encoded(tokenizer, TURNS, tools=TOOLS)
    parser = PARSERS["hermes"](TOOLS, iter("ab").__next__)
    answer = text[text.index("</think>") :].split("<|im_end|>")[0]
    calls = parser.push(answer).calls
    assert [(c.name, json.loads(c.arguments)) for c in calls] == RECORDED_CALLS
