"""Thoughts, tool calls and stops, with a target that says what the test wants.

Every text goes through several systems in blocks of several sizes: a client sees one and the same.
Where answers end, and calls and characters cut anywhere, on every system: `test_case_ends.py`,
`test_case_text.py`.
"""

from __future__ import annotations

import json

import pytest
from test_chat_route import GARDEN, ask, joined, stream

from scripted_text import RIGHT

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
]
THINK = {"chat_template_kwargs": {"enable_thinking": True}}
BLOCKS = [("ar", (0,)), ("static:4", (RIGHT,)), ("dflash", (RIGHT,)), ("dflash", (0, 3, 1, RIGHT))]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Zürich", "days": 3}}</tool_call>'
ARGUMENTS = {"city": "Zürich", "days": 3}


def calls(chunks):
    """Calls as a client of a stream puts them together."""
    made = {}
    for event in chunks:
        for choice in event["choices"]:
            for delta in choice["delta"].get("tool_calls", []):
                call = made.setdefault(delta["index"], {"arguments": ""})
                call["arguments"] += delta["function"].get("arguments", "")
                if "id" in delta:
                    call |= {"id": delta["id"], "name": delta["function"]["name"]}
    return made


@pytest.mark.parametrize(("system", "plan"), BLOCKS)
def test_a_thought_is_apart_from_the_answer(client, engine, script, system, plan):
    thought, said = "It grows, I think, slowly.", "Gardens grow é slowly."
    script(f"{thought}\n</think>\n\n{said}", plan)
    message = ask(client, system=system, **THINK)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (thought, said)
    assert message["reasoning"] == thought
    chunks = stream(client, system=system, stream_options={"include_usage": True}, **THINK)
    assert joined(chunks, field="reasoning_content") == thought
    assert joined(chunks, field="reasoning") == thought
    assert joined(chunks) == said
    counted = len(engine.tokenizer.encode(f"{thought}\n</think>"))
    details = chunks[-1]["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == counted


def test_without_thinking_nothing_is_a_thought(client, script):
    script("Gardens grow.")
    answer = ask(client)
    assert answer["choices"][0]["message"]["content"] == "Gardens grow."
    assert "reasoning_content" not in answer["choices"][0]["message"]
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


@pytest.mark.parametrize("asked", [{"enable_thinking": True}, {"reasoning_effort": "low"}, THINK])
def test_thinking_is_asked_for_in_three_ways(client, script, asked):
    script("Hm.\n</think>\n\nYes.")
    message = ask(client, **asked)["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")


def test_the_settings_say_whether_to_think(make_client, script):
    script("Hm.\n</think>\n\nYes.")
    client = make_client(thinking=True)
    assert ask(client)["choices"][0]["message"]["content"] == "Yes."
    plain = ask(client, reasoning_effort="none")["choices"][0]["message"]["content"]
    assert plain == "Hm.\n</think>\n\nYes."


@pytest.mark.parametrize(("system", "plan"), BLOCKS)
def test_a_tool_call_is_found(client, script, system, plan):
    script(f"I look.\n{CALL}", plan)
    choice = ask(client, tools=TOOLS, system=system)["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "I look."
    [call] = choice["message"]["tool_calls"]
    assert call["type"] == "function"
    assert call["function"]["name"] == "weather"
    assert json.loads(call["function"]["arguments"]) == ARGUMENTS
    chunks = stream(client, tools=TOOLS, system=system)
    assert joined(chunks) == "I look."
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"
    [call] = calls(chunks).values()
    assert call["id"].startswith("call_")
    assert (call["name"], json.loads(call["arguments"])) == ("weather", ARGUMENTS)


def test_a_message_that_only_calls_has_no_content(client, script):
    script(CALL)
    assert ask(client, tools=TOOLS)["choices"][0]["message"]["content"] is None


def test_without_tools_a_call_is_text(client, script):
    script(CALL)
    for body in ({}, {"tools": TOOLS, "tool_choice": "none"}):
        choice = ask(client, **body)["choices"][0]
        assert choice["message"]["content"] == CALL
        assert choice["finish_reason"] == "stop"


def test_several_calls_are_numbered(client, script):
    script(f"{CALL}\n{CALL}")
    assert len(ask(client, tools=TOOLS)["choices"][0]["message"]["tool_calls"]) == 2
    assert list(calls(stream(client, tools=TOOLS))) == [0, 1]


@pytest.mark.parametrize("thinking", [False, True])
def test_a_required_call_is_begun_for_the_model(client, script, thinking):
    script('weather", "arguments": {"city": "Zürich", "days": 3}}</tool_call>')
    body = {"tools": TOOLS, "tool_choice": "required", "enable_thinking": thinking}
    choice = ask(client, **body)["choices"][0]
    [call] = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == (
        "weather",
        ARGUMENTS,
    )
    assert choice["finish_reason"] == "tool_calls"


def test_a_named_call_leaves_only_its_arguments_to_the_model(client, script):
    script('{"city": "Zürich", "days": 3}}</tool_call>')
    named = {"type": "function", "function": {"name": "weather"}}
    chunks = stream(client, tools=TOOLS, tool_choice=named)
    [call] = calls(chunks).values()
    assert (call["name"], json.loads(call["arguments"])) == ("weather", ARGUMENTS)


def test_a_named_call_is_begun_as_json_whatever_its_name(client, script):
    script('{"city": "Zürich", "days": 3}}</tool_call>')
    function = TOOLS[0]["function"] | {"name": 'a"b\\c'}
    named = {"type": "function", "function": {"name": function["name"]}}
    tools = [{"type": "function", "function": function}]
    [call] = ask(client, tools=tools, tool_choice=named)["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == function["name"]


def test_a_call_and_its_result_go_back_to_the_model(client, engine):
    call = {"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    messages = [
        *GARDEN,
        {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None},
        {"role": "tool", "tool_call_id": "1", "content": "Rain."},
    ]
    ids = client.post("/tokenize", json={"messages": messages, "tools": TOOLS}).json()["tokens"]
    text = engine.tokenizer.decode(ids, skip_special_tokens=False)
    assert '{"name": "weather", "arguments": {}}' in text
    assert "<tool_response>\nRain.\n</tool_response>" in text
