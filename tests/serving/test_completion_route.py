from __future__ import annotations

import pytest
from openai.types import Completion

from hybridspec.core import SamplingParams
from hybridspec.serving import completions
from scripted_text import RIGHT
from served import events

PATH = "/v1/completions"
TEXT = "The garden"


def ask(client, prompt=TEXT, **body):
    response = client.post(PATH, json={"prompt": prompt, **body})
    assert response.status_code == 200, response.text
    return response.json()


def stream(client, prompt=TEXT, **body):
    response = client.post(PATH, json={"prompt": prompt, "stream": True, **body})
    assert response.status_code == 200, response.text
    return events(response.text)


def joined(chunks, index=0):
    return "".join(c["text"] for e in chunks for c in e["choices"] if c["index"] == index)


@pytest.mark.parametrize("system", ["ar", "static:4", "dflash", "auto"])
def test_the_answer_is_the_engines(client, engine, system):
    wanted = engine.generate(TEXT, SamplingParams(max_tokens=20), system="ar")
    answer = ask(client, max_tokens=20, temperature=0, system=system)
    assert answer["choices"][0]["text"] == wanted.text
    assert Completion.model_validate(answer, strict=True).usage.completion_tokens == 20


def test_sixteen_tokens_are_the_default(client):
    assert ask(client, temperature=0, ignore_eos=True)["usage"]["completion_tokens"] == 16


def test_token_ids_are_a_prompt(client, engine):
    ids = engine.encode(TEXT)
    assert ask(client, ids, temperature=0)["choices"] == ask(client, temperature=0)["choices"]


def test_several_prompts_and_choices_are_numbered_through(client, engine):
    prompts = [TEXT, engine.encode("Hello")]
    body = {"temperature": 1.0, "max_tokens": 6, "n": 2, "seed": 3, "ignore_eos": True}
    answer = ask(client, prompts, **body)
    alone = [
        ask(client, prompt, **{**body, "n": 1, "seed": 3 + i})["choices"][0]["text"]
        for prompt in prompts
        for i in range(2)
    ]
    assert [c["text"] for c in answer["choices"]] == alone
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == sum(len(engine.encode(p)) for p in prompts)
    assert answer["usage"]["completion_tokens"] == 24
    chunks = stream(client, prompts, **body)
    assert [joined(chunks, i) for i in range(4)] == alone


def test_a_streams_events_have_openais_shape(client):
    chunks = stream(client, max_tokens=8, temperature=0, stream_options={"include_usage": True})
    reasons = [chunk["choices"][0].pop("finish_reason") for chunk in chunks[:-1]]
    assert reasons == [None] * (len(reasons) - 1) + ["length"]
    for chunk in chunks[:-1]:  # their type knows no event without a reason, which theirs have
        chunk["choices"][0]["finish_reason"] = "stop"
        Completion.model_validate(chunk, strict=True)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["completion_tokens"] == 8
    assert joined(chunks) == ask(client, max_tokens=8, temperature=0)["choices"][0]["text"]


def test_echo_begins_with_the_prompt(client):
    plain = ask(client, temperature=0, max_tokens=5)["choices"][0]["text"]
    assert ask(client, temperature=0, max_tokens=5, echo=True)["choices"][0]["text"] == TEXT + plain
    assert joined(stream(client, temperature=0, max_tokens=5, echo=True)) == TEXT + plain


def test_echo_alone_asks_for_no_answer(client, engine):
    answer = ask(client, max_tokens=0, echo=True, logprobs=1)
    choice = answer["choices"][0]
    assert choice["text"] == TEXT
    assert answer["usage"]["completion_tokens"] == 0
    assert answer["usage"]["prompt_tokens"] == len(engine.encode(TEXT))
    assert "".join(choice["logprobs"]["tokens"]) == TEXT
    assert choice["finish_reason"] == "length"


def test_a_prompts_logprobs_are_those_of_the_engine(client, engine):
    scores = engine.score(TEXT, 3)
    logprobs = ask(client, max_tokens=4, temperature=0, echo=True, logprobs=3)["choices"][0][
        "logprobs"
    ]
    count = len(engine.encode(TEXT))
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    assert logprobs["token_logprobs"][1:count] == [s.logprob for s in scores[1:]]
    assert len(logprobs["tokens"]) == count + 4
    assert len(logprobs["top_logprobs"][1]) == 3


def test_offsets_point_into_the_text(client):
    choice = ask(client, max_tokens=6, temperature=0, echo=True, logprobs=0)["choices"][0]
    logprobs = choice["logprobs"]
    for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
        assert choice["text"][offset : offset + len(token)] == token


@pytest.mark.parametrize("echo", [False, True])
def test_a_streams_logprobs_are_those_of_the_whole(client, echo):
    body = {"max_tokens": 12, "temperature": 0, "logprobs": 2, "echo": echo}
    whole = ask(client, **body)["choices"][0]["logprobs"]
    chunks = stream(client, **body)
    parts = [c["logprobs"] for e in chunks for c in e["choices"] if c["logprobs"]]
    for name, values in whole.items():
        assert [value for part in parts for value in part[name]] == values


def test_a_greedy_choice_is_the_most_likely_token(client):
    logprobs = ask(client, max_tokens=8, temperature=0, logprobs=1)["choices"][0]["logprobs"]
    for token, value, top in zip(
        logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
    ):
        assert top == {token: value}


def test_rounds_and_ids_are_given_where_asked_for(client, engine):
    wanted = engine.generate(TEXT, SamplingParams(max_tokens=9))
    body = {"max_tokens": 9, "temperature": 0, "return_token_ids": True}
    choice = ask(client, **body)["choices"][0]
    assert choice["token_ids"] == list(wanted.token_ids)
    assert choice["prompt_token_ids"] == engine.encode(TEXT)
    chunks = stream(client, return_rounds=True, **body)
    rounds = [
        chunk["hybridspec"]["round"] for chunk in chunks if "round" in chunk.get("hybridspec", {})
    ]
    assert [t["id"] for r in rounds for t in r["tokens"]] == list(wanted.token_ids)


def test_all_answers_of_a_request_are_bounded(client):
    body = {"prompt": ["a", "b"], "max_tokens": 1}
    response = client.post("/v1/completions", json={**body, "n": 33})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "n"


def test_the_logprobs_of_echoed_prompts_are_bounded(client, engine, monkeypatch):
    """By prompts, answers and likely tokens together; without echo or logprobs there are none."""
    ids = engine.encode(TEXT)
    body = {"prompt": [ids, ids], "n": 3, "max_tokens": 1, "echo": True, "logprobs": 4}
    held = 2 * len(ids) * 3 * 5
    monkeypatch.setattr(completions, "MOST_ECHOED", held)
    assert client.post(PATH, json=body).status_code == 200
    monkeypatch.setattr(completions, "MOST_ECHOED", held - 1)
    for stream in (False, True):
        response = client.post(PATH, json={**body, "stream": stream})
        assert response.status_code == 400
        error = response.json()["error"]
        assert error["param"] == "logprobs"
        assert f"with {held} log-probabilities; expected at most {held - 1}" in error["message"]
    for less in ({"echo": False}, {"logprobs": None}, {"logprobs": 3}, {"n": 2}):
        assert client.post(PATH, json={**body, **less}).status_code == 200


def test_the_logprobs_of_a_prompt_are_made_once_and_offsets_are_of_the_text(client, monkeypatch):
    made, real = [], completions.completion_logprobs

    def counted(tokenizer, ids, entries, offsets):
        made.append(entries[0] is None)  # as of a prompt's first token
        return real(tokenizer, ids, entries, offsets)

    monkeypatch.setattr(completions, "completion_logprobs", counted)
    body = {"prompt": "Köln 🎉 x", "max_tokens": 2, "n": 3, "echo": True, "logprobs": 0}
    for choice in client.post("/v1/completions", json=body).json()["choices"]:
        logprobs, text = choice["logprobs"], choice["text"]
        assert any(token.startswith("bytes:") for token in logprobs["tokens"])
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"], strict=True):
            if not token.startswith("bytes:"):
                assert text.startswith(token, offset) or offset == len(text)
    assert made.count(True) == 1


@pytest.mark.parametrize("plan", [(0,), (1, 0, 2), (RIGHT,)])
@pytest.mark.parametrize("echo", [False, True])
def test_the_parts_of_a_character_have_its_offset(client, engine, script, plan, echo):
    """Also where a round, and with it an event of a stream, ends between them."""
    text = "Köln 🎉🌱 東京 x"
    ids = script(text, plan)
    begins, read = [], b""
    for token in ids:  # characters that are whole before the token
        begins.append(len(read.decode(errors="ignore")))
        read += engine.tokenizer.token_bytes(token)
    assert len(set(begins)) < len(ids)
    body = {"logprobs": 0, "system": "dflash", "echo": echo, "max_tokens": 99}
    before = len("🎉 y") if echo else 0
    chunks = stream(client, "🎉 y", **body)
    parts = [c["logprobs"]["text_offset"] for e in chunks for c in e["choices"] if c["logprobs"]]
    streamed = [offset for part in parts for offset in part]
    whole = ask(client, "🎉 y", **body)["choices"][0]["logprobs"]["text_offset"]
    assert streamed == whole
    first = len(engine.encode("🎉 y")) if echo else 0
    assert whole[first : first + len(ids)] == [before + place for place in begins]
