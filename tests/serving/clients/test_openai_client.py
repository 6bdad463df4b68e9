"""The package `openai` against a real server: what it sends is served, what it gets it can read."""

from __future__ import annotations

import json

import openai
import pytest
from test_chat_route import GARDEN
from test_spoken import ARGUMENTS, CALL, TOOLS

HI = {"model": "embedded", "messages": GARDEN}


@pytest.fixture(scope="module")
def api(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_models(api):
    [model] = api.models.list()
    assert model.id == "embedded"
    assert api.models.retrieve("embedded").model_extra["max_model_len"] == 32768


def test_a_chat_and_all_its_fields(api):
    answer = api.chat.completions.create(
        **HI,
        n=2,
        seed=1,
        temperature=0.8,
        top_p=0.9,
        max_completion_tokens=10,
        stop=["\n\n\n"],
        presence_penalty=0.1,
        frequency_penalty=0.1,
        logit_bias={"17": -1},
        logprobs=True,
        top_logprobs=3,
        user="me",
        metadata={"a": "b"},
        extra_body={"top_k": 30, "min_p": 0.01, "repetition_penalty": 1.05},
    )
    assert [choice.index for choice in answer.choices] == [0, 1]
    assert answer.usage.completion_tokens == 20
    for choice in answer.choices:
        assert choice.finish_reason == "length"
        tokens = choice.logprobs.content
        assert bytes(b for token in tokens for b in token.bytes).decode() == choice.message.content
        assert all(len(token.top_logprobs) == 3 for token in tokens)
    assert answer.model_extra["metrics"]["speculative_decoding"]["num_spec_tokens"] == 15


def test_a_streamed_chat(api):
    chunks = list(
        api.chat.completions.create(
            **HI, stream=True, temperature=0, max_tokens=20, stream_options={"include_usage": True}
        )
    )
    whole = api.chat.completions.create(**HI, temperature=0, max_tokens=20)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage.completion_tokens == 20
    assert chunks[-1].model_extra["timings"]["predicted_n"] == 20


def test_the_clients_own_accumulation_of_a_stream(api, script):
    script(f"I look.\n{CALL}")
    with api.chat.completions.stream(**HI, tools=TOOLS) as stream:
        for _ in stream:
            pass
        message = stream.get_final_completion().choices[0].message
    assert message.content == "I look."
    assert json.loads(message.tool_calls[0].function.arguments) == ARGUMENTS


def test_thoughts(api, script):
    script("Hm.\n</think>\n\nYes.")
    body = {"chat_template_kwargs": {"enable_thinking": True}}
    message = api.chat.completions.create(**HI, extra_body=body).choices[0].message
    assert (message.content, message.reasoning_content, message.reasoning) == ("Yes.", "Hm.", "Hm.")


def test_completions(api):
    answer = api.completions.create(
        model="embedded", prompt="The garden", max_tokens=5, echo=True, logprobs=2, temperature=0
    )
    choice = answer.choices[0]
    assert choice.text.startswith("The garden")
    assert "".join(choice.logprobs.tokens) == choice.text
    chunks = api.completions.create(
        model="embedded", prompt="The garden", max_tokens=5, temperature=0, stream=True
    )
    assert "The garden" + "".join(c.choices[0].text for c in chunks) == choice.text


def test_errors_are_the_clients_own(api):
    with pytest.raises(openai.BadRequestError) as wrong:
        api.chat.completions.create(**HI, temperature=-1)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.NotFoundError):
        api.chat.completions.create(model="other", messages=GARDEN)
    with pytest.raises(openai.BadRequestError):
        api.chat.completions.create(**HI, temperature=-1, stream=True)


def test_an_answer_by_a_pydantic_model(api):
    pytest.importorskip("xgrammar")
    from pydantic import BaseModel

    class Count(BaseModel):
        count: bool

    parsed = api.chat.completions.parse(
        **HI, response_format=Count, temperature=0, frequency_penalty=2
    )
    assert parsed.choices[0].message.parsed.count in (True, False)


def test_it_leaves_in_the_middle(api, served):
    from served import until

    stream = api.chat.completions.create(
        **HI, stream=True, max_tokens=20000, extra_body={"ignore_eos": True}
    )
    next(iter(stream))
    stream.close()
    until(served.idle)
