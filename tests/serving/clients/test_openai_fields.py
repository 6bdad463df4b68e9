"""Fields that the package `openai` sends and reads, beside those of `test_openai_client.py`."""

from __future__ import annotations

import json

import pytest
from openai_clients import HI, connect
from test_spoken import ARGUMENTS, CALL, TOOLS

from hybridspec.core import SamplingParams

USAGE = {"include_usage": True, "continuous_usage_stats": True}
SAMPLED = {**HI, "temperature": 0.9, "top_p": 0.95, "seed": 3, "max_tokens": 24}


@pytest.fixture(scope="module")
def api(served):
    with connect(served) as client:
        yield client


@pytest.fixture(scope="module")
def whole(api):
    return api.chat.completions.create(**SAMPLED, logprobs=True, top_logprobs=2)


def test_a_seeded_answer_is_the_engines(engine, whole):
    params = SamplingParams(
        max_tokens=24, temperature=0.9, top_p=0.95, top_k=engine.defaults.top_k, seed=3
    )
    wanted = engine.generate(HI["messages"], params, system="ar")
    assert whole.choices[0].message.content == wanted.text


def test_a_stream_counts_as_it_goes_and_sums_to_the_whole(api, whole):
    chunks = list(
        api.chat.completions.create(
            **SAMPLED, stream=True, stream_options=USAGE, logprobs=True, top_logprobs=2
        )
    )
    parts = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(p.delta.content or "" for p in parts) == whole.choices[0].message.content
    tokens = [token for part in parts if part.logprobs for token in part.logprobs.content]
    assert tokens == whole.choices[0].logprobs.content
    counted = 0
    for chunk, part in zip(chunks, parts, strict=False):
        counted += len(part.logprobs.content) if part.logprobs else 0
        # The role comes in an event of its own, when the first tokens are there already.
        assert chunk.usage.completion_tokens >= counted
    assert chunks[-2].usage.completion_tokens == counted == 24
    assert chunks[-1].choices == []
    assert chunks[-1].usage.model_dump() == whole.usage.model_dump()


def test_choices_of_a_stream_are_those_of_the_whole(api):
    together = api.chat.completions.create(**SAMPLED, n=3)
    texts = ["", "", ""]
    for chunk in api.chat.completions.create(**SAMPLED, n=3, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
    assert texts == [choice.message.content for choice in together.choices]
    assert len(set(texts)) > 1


def test_facts_are_in_the_extra_fields_of_its_models(api):
    answer = api.chat.completions.create(**SAMPLED, extra_body={"return_spec_tokens_details": True})
    extra = answer.model_extra
    facts = extra["metrics"]["speculative_decoding"]
    assert len(facts["acceptance_histogram"]) == facts["num_spec_tokens"] + 1 == 16
    assert extra["hybridspec"]["rounds"] == facts["num_spec_steps"]
    assert extra["sglext"]["spec_tokens_details"]["spec_verify_ct"] == facts["num_spec_steps"]
    assert extra["timings"]["predicted_n"] == answer.usage.completion_tokens
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_rounds_and_ids_are_in_the_extra_fields_too(api):
    more = {"return_rounds": True, "return_token_ids": True}
    whole = api.chat.completions.create(**SAMPLED, extra_body={"return_token_ids": True})
    chunks = list(api.chat.completions.create(**SAMPLED, stream=True, extra_body=more))
    own = [chunk.model_extra.get("hybridspec", {}) for chunk in chunks]
    rounds_ids = [
        token["id"] for facts in own if "round" in facts for token in facts["round"]["tokens"]
    ]
    ids = [i for c in chunks for i in c.choices[0].model_extra.get("token_ids", [])]
    assert ids == whole.choices[0].model_extra["token_ids"]
    assert rounds_ids == ids
    assert chunks[0].model_extra["prompt_token_ids"] == whole.model_extra["prompt_token_ids"]


def test_calls_come_piece_by_piece(api, script):
    script(f"I look.\n{CALL}\n{CALL}")
    arguments: dict[int, str] = {}
    finish = None
    for chunk in api.chat.completions.create(**HI, tools=TOOLS, stream=True):
        finish = chunk.choices[0].finish_reason or finish
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.index in arguments or call.function.name == "weather"
            arguments[call.index] = arguments.get(call.index, "") + (call.function.arguments or "")
    assert finish == "tool_calls"
    assert [json.loads(arguments[i]) for i in range(2)] == [ARGUMENTS, ARGUMENTS]


def test_an_agents_second_turn(api, script):
    script(CALL)
    first = api.chat.completions.create(**HI, tools=TOOLS).choices[0].message
    [call] = first.tool_calls
    script("It rains.")
    result = {"role": "tool", "tool_call_id": call.id, "content": "Rain."}
    messages = [*HI["messages"], first, result]
    answer = api.chat.completions.create(model="embedded", messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == "It rains."


def test_any_object(api):
    pytest.importorskip("xgrammar")
    form = {"type": "json_object"}
    answer = api.chat.completions.create(
        **HI, response_format=form, temperature=0, max_tokens=300, frequency_penalty=2
    )
    assert answer.choices[0].finish_reason == "stop"
    assert isinstance(json.loads(answer.choices[0].message.content), dict)


def test_completions_of_several_prompts_stream(api):
    body = {"model": "embedded", "prompt": ["The garden", "The clock"], "temperature": 0}
    body |= {"n": 2, "seed": 1, "max_tokens": 6, "stop": ["\n\n\n"], "logprobs": 1}
    wanted = api.completions.create(**body)
    texts, tokens = [""] * 4, [[], [], [], []]
    for chunk in api.completions.create(**body, stream=True, stream_options=USAGE):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += choice.logprobs.tokens if choice.logprobs else []
        usage = chunk.usage
    assert texts == [choice.text for choice in wanted.choices]
    assert tokens == [choice.logprobs.tokens for choice in wanted.choices]
    assert usage.model_dump() == wanted.usage.model_dump()


def test_a_response_is_read_raw(api):
    raw = api.chat.completions.with_raw_response.create(**HI, max_tokens=1)
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().usage.completion_tokens == 1
    with api.chat.completions.with_streaming_response.create(**HI, max_tokens=1) as response:
        assert response.parse().usage.completion_tokens == 1
