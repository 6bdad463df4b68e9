"""Thoughts, tool calls and stops, with a target that says what the test wants.

Every text goes through every system in blocks of several sizes: a client sees one and the same.
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
    counted = len(engine.tokenizer.encode(f"{thought}\n"))
    details = chunks[-1]["usage"]["completion_tokens_details"]
    assert details["reasoning_tokens"] == counted


@pytest.mark.parametrize("limit", [1, 3, 5, 8])
def test_a_thought_that_the_limit_cuts_is_all_there_is(client, script, limit):
    """A09: thoughts are never more than the answer, wherever the block crosses the limit."""
    ids = script("I think about gardens and about weather.\n</think>\n\nYes.")
    answer = ask(client, max_tokens=limit, system="dflash", **THINK)
    usage = answer["usage"]
    assert usage["completion_tokens"] == limit < len(ids)
    assert usage["completion_tokens_details"]["reasoning_tokens"] == limit
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == ""


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


@pytest.mark.parametrize("plan", [(4, 1), (RIGHT,)])
def test_without_parallel_calls_the_answer_ends_at_the_first(client, script, plan):
    ids = script(f"{CALL}\n{CALL}" + " and more words that nobody reads" * 60, plan)
    body = {"tools": TOOLS, "parallel_tool_calls": False, "system": "dflash"}
    answer = ask(client, **body)
    assert len(answer["choices"][0]["message"]["tool_calls"]) == 1
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert answer["usage"]["completion_tokens"] < len(ids)
    assert list(calls(stream(client, **body))) == [0]


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


@pytest.mark.parametrize(("system", "plan"), BLOCKS)
def test_a_stop_string_inside_a_block_ends_the_answer(client, engine, script, system, plan):
    """A01: of a stop and a limit in one block, the first in token order counts."""
    text = "one two three four five six seven eight"
    ids = script(text, plan)
    upto = len(engine.tokenizer.encode("one two three four"))
    for limit in (upto, upto + 1, 100):
        choice = ask(client, stop="four", max_tokens=limit, system=system)["choices"][0]
        assert choice["message"]["content"] == "one two three "
        assert choice["finish_reason"] == "stop"
    chunks = stream(client, stop="four", system=system)
    assert joined(chunks) == "one two three "
    short = ask(client, stop="eight", max_tokens=3, system=system, return_token_ids=True)
    assert short["choices"][0]["finish_reason"] == "length"
    assert short["choices"][0]["token_ids"] == ids[:3]


@pytest.mark.parametrize("place", range(1, 6))
def test_an_end_token_anywhere_in_a_block_ends_the_answer(client, engine, script, place):
    """A04, A06: whichever of the model's end tokens it is."""
    words = engine.tokenizer.encode("one two three four five six")
    for end in engine.defaults.eos_token_ids:
        script([*words[:place], end, *words])
        answer = ask(client, system="dflash", return_token_ids=True)
        assert answer["choices"][0]["token_ids"] == [*words[:place], end]
        assert answer["choices"][0]["finish_reason"] == "stop"
        assert answer["usage"]["completion_tokens"] == place + 1
        assert answer["choices"][0]["message"]["content"] == engine.tokenizer.decode(words[:place])


def test_a_stop_id_ends_the_answer_and_ignore_eos_goes_on(client, engine, script):
    words = engine.tokenizer.encode("one two three four")
    end = engine.defaults.eos_token_ids[0]
    script([*words[:2], end, *words[2:]])
    body = {"system": "dflash", "return_token_ids": True}
    stopped = ask(client, stop_token_ids=[words[1]], **body)
    assert stopped["choices"][0]["token_ids"] == words[:2]
    on = ask(client, ignore_eos=True, max_tokens=5, **body)
    assert on["choices"][0]["token_ids"] == [*words[:2], end, *words[2:]]


@pytest.mark.parametrize("limit", [1, 2, 15, 16, 17, 31])
@pytest.mark.parametrize("system", ["ar", "static:4", "dflash"])
def test_the_limit_is_exact_and_counted_once(client, script, system, limit):
    """A08: with every draft accepted, usage, facts and metrics agree on the tokens."""
    script([1000 + i for i in range(40)])
    before = client.get("/metrics").text
    answer = ask(client, max_tokens=limit, system=system, return_token_ids=True)
    assert answer["choices"][0]["token_ids"] == [1000 + i for i in range(limit)]
    assert answer["usage"]["completion_tokens"] == limit
    assert answer["timings"]["predicted_n"] == limit
    name = 'hybridspec:generation_tokens_total{model_name="embedded"} '
    count = [float(t.split(name)[1].split()[0]) for t in (before, client.get("/metrics").text)]
    assert count[1] - count[0] == limit


@pytest.mark.parametrize("plan", [(0,), (1,), (2, 5), (RIGHT,)])
def test_no_event_ends_within_a_character(client, script, plan):
    """A56: however the tokens are cut, the pieces are whole characters and their sum the text."""
    text = "Grüße, 東京 🌱🌿 und é"
    script(text, plan)
    chunks = stream(client, system="dflash", return_token_ids=True)
    assert joined(chunks) == text
    assert "\ufffd" not in joined(chunks)


def test_half_a_character_at_the_limit_is_one_replacement(client, engine, script):
    ids = script("🌱🌿")
    assert len(ids) > 2
    assert ask(client, max_tokens=1)["choices"][0]["message"]["content"] == "\ufffd"
