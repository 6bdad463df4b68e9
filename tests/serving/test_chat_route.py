from __future__ import annotations

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from hybridspec.core import SamplingParams
from served import events

GARDEN = [{"role": "user", "content": "What should I know about gardening?"}]
PATH = "/v1/chat/completions"
CHAT_BODY = {"messages": GARDEN, "max_tokens": 3, "temperature": 0}
SYSTEMS = ("ar", "static:4", "dflash", "auto", "hybridspec")


def ask(client, messages=GARDEN, **body):
    response = client.post(PATH, json={"messages": messages, **body})
    assert response.status_code == 200, response.text
    return response.json()


def stream(client, messages=GARDEN, **body):
    response = client.post(PATH, json={"messages": messages, "stream": True, **body})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    return events(response.text)


def joined(chunks, index=0, field="content"):
    deltas = [c["delta"] for e in chunks for c in e["choices"] if c["index"] == index]
    return "".join(delta.get(field) or "" for delta in deltas)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_answer_is_the_engines(client, engine, system):
    wanted = engine.generate(GARDEN, SamplingParams(max_tokens=40), system="ar")
    answer = ask(client, max_tokens=40, temperature=0, system=system)
    assert answer["choices"][0]["message"]["content"] == wanted.text
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 40
    assert answer["usage"]["prompt_tokens"] == wanted.prompt_tokens
    assert answer["usage"]["total_tokens"] == 40 + wanted.prompt_tokens


def test_without_limits_the_answer_runs_to_its_end(client, engine):
    wanted = engine.generate(GARDEN, SamplingParams(max_tokens=1000))
    answer = ask(client, temperature=0)
    assert wanted.finish_reason == "stop"
    assert answer["choices"][0]["message"]["content"] == wanted.text
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_a_response_has_openais_shape(client):
    answer = ChatCompletion.model_validate(ask(client, max_tokens=3), strict=True)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == "embedded"
    assert answer.choices[0].message.role == "assistant"


def test_a_streams_events_come_in_order(client):
    chunks = stream(client, max_tokens=20, temperature=0, stream_options={"include_usage": True})
    typed = [ChatCompletionChunk.model_validate(chunk, strict=True) for chunk in chunks]
    assert {c.object for c in typed} == {"chat.completion.chunk"}
    assert len({c.id for c in typed}) == 1
    first, *middle, finish, usage = typed
    assert first.choices[0].delta.role == "assistant"
    assert first.choices[0].delta.content == ""
    assert all(c.choices[0].delta.content for c in middle)
    assert all(c.choices[0].finish_reason is None for c in (first, *middle))
    assert all(c.usage is None for c in (first, *middle, finish))
    assert finish.choices[0].finish_reason == "length"
    assert finish.choices[0].delta.model_dump(exclude_none=True) == {}
    assert usage.choices == []
    assert usage.usage.completion_tokens == 20


def test_without_include_usage_there_is_no_usage_event(client):
    chunks = stream(client, max_tokens=4)
    assert all(chunk["choices"] for chunk in chunks)
    assert not any("usage" in chunk for chunk in chunks)
    assert "timings" in chunks[-1]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_stream_says_what_the_whole_answer_says(client, system):
    sampling = {"temperature": 0.9, "seed": 5, "max_tokens": 40, "system": system}
    whole = ask(client, **sampling)
    chunks = stream(client, **sampling)
    assert joined(chunks) == whole["choices"][0]["message"]["content"]


def test_continuous_usage_counts_every_token(client):
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(client, max_tokens=20, temperature=0, stream_options=options)
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    assert counts == sorted(counts)
    assert counts[-1] == 20
    prompts = {chunk["usage"]["prompt_tokens"] for chunk in chunks}
    assert prompts == {ask(client, max_tokens=1)["usage"]["prompt_tokens"]}


def test_every_choice_is_its_own_seeds_answer(client):
    body = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "max_tokens": 30}
    together = ask(client, seed=7, n=3, **body)
    alone = [ask(client, seed=7 + i, **body)["choices"][0]["message"]["content"] for i in range(3)]
    assert [c["message"]["content"] for c in together["choices"]] == alone
    assert [c["index"] for c in together["choices"]] == [0, 1, 2]
    assert len(set(alone)) > 1
    assert together["usage"]["completion_tokens"] == together["timings"]["predicted_n"]
    assert together["usage"]["prompt_tokens"] == ask(client, max_tokens=1)["usage"]["prompt_tokens"]
    chunks = stream(client, seed=7, n=3, **body)
    assert [joined(chunks, i) for i in range(3)] == alone


def test_the_checkpoints_sampling_is_the_default(client, engine):
    own = engine.defaults
    assert own.do_sample
    params = SamplingParams(
        max_tokens=30, temperature=own.temperature, top_k=own.top_k, top_p=own.top_p, seed=11
    )
    wanted = engine.generate(GARDEN, params)
    answer = ask(client, seed=11, max_tokens=30)
    assert answer["choices"][0]["message"]["content"] == wanted.text
    assert answer["hybridspec"]["seeds"] == [11]


def test_at_temperature_0_filters_change_nothing(client):
    plain = ask(client, temperature=0, max_tokens=20)
    filtered = ask(client, temperature=0, top_p=0.5, top_k=3, min_p=0.1, max_tokens=20)
    assert filtered["choices"][0]["message"] == plain["choices"][0]["message"]


def test_a_negative_seed_is_a_seed(client):
    body = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 20}
    assert ask(client, seed=-1, **body)["choices"] == ask(client, seed=2**64 - 1, **body)["choices"]


def test_max_completion_tokens_wins(client):
    answer = ask(client, max_tokens=9, max_completion_tokens=4, temperature=0)
    assert answer["usage"]["completion_tokens"] == 4


def test_the_settings_limit_answers_without_one(make_client):
    client = make_client(max_tokens=5)
    assert ask(client, temperature=0)["usage"]["completion_tokens"] == 5
    assert ask(client, temperature=0, max_tokens=8)["usage"]["completion_tokens"] == 8


def test_a_limit_beyond_the_context_is_the_context(client, engine):
    answer = ask(client, temperature=0, max_tokens=10**6, stop=["several"])
    assert answer["choices"][0]["finish_reason"] == "stop"


def test_roles_of_openais_are_those_of_templates(client):
    question = {"role": "user", "content": "Hello"}
    joined_system = [{"role": "system", "content": "Be brief.\n\nBe kind."}, question]
    two = [{"role": "system", "content": "Be brief."}, {"role": "developer", "content": "Be kind."}]
    wanted = client.post("/tokenize", json={"messages": joined_system}).json()
    assert client.post("/tokenize", json={"messages": [*two, question]}).json() == wanted


def test_parts_of_text_are_joined(client):
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    wanted = client.post("/tokenize", json={"messages": [{"role": "user", "content": "Hello"}]})
    given = client.post("/tokenize", json={"messages": [{"role": "user", "content": parts}]})
    assert given.json() == wanted.json()


def test_rounds_are_told_token_by_token(client):
    chunks = stream(client, max_tokens=30, temperature=0, return_rounds=True, system="static:8")
    rounds = [
        chunk["hybridspec"]["round"] for chunk in chunks if "round" in chunk.get("hybridspec", {})
    ]
    assert rounds[0]["w"] == 0
    assert len(rounds[0]["tokens"]) == 1
    assert sum(len(r["tokens"]) for r in rounds) == 30
    assert "".join(t["text"] for r in rounds for t in r["tokens"]) == joined(chunks)
    for r in rounds[1:]:
        assert r["tokens"][: r["accepted"]] == r["drafts"][: r["accepted"]][: len(r["tokens"])]
        assert len(r["drafts"]) >= r["w"] - 1


def test_token_ids_are_given_where_asked_for(client, engine):
    answer = ask(client, max_tokens=12, temperature=0, return_token_ids=True)
    wanted = engine.generate(GARDEN, SamplingParams(max_tokens=12))
    assert answer["choices"][0]["token_ids"] == list(wanted.token_ids)
    assert answer["prompt_token_ids"] == engine.encode(GARDEN)
    chunks = stream(client, max_tokens=12, temperature=0, return_token_ids=True)
    ids = [i for chunk in chunks for c in chunk["choices"] for i in c.get("token_ids", [])]
    assert ids == list(wanted.token_ids)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_quotes_what_is_no_unicode_is_json_all_the_same(client, monkeypatch, stream):
    monkeypatch.setattr("hybridspec.serving.jobs.FINGERPRINT", "odd \udcff")
    response = client.post(PATH, json={**CHAT_BODY, "max_tokens": 1, "stream": stream})
    assert response.status_code == 200
    found = events(response.text)[0] if stream else response.json()
    assert found["system_fingerprint"] == "odd \udcff"
