"""Whatever does not fit is a 400 in OpenAI's shape that names the parameter; nothing is a 500."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from hybridspec.serving.parameters import IGNORED, NEUTRAL
from hybridspec.serving.protocol import ChatRequest, CompletionRequest

HELLO = [{"role": "user", "content": "Hello"}]
CALL = {"type": "function", "function": {"name": "look"}}
OTHER = {"type": "function", "function": {"name": "other"}}
BY_NAMES = {"type": "object", "patternProperties": {"(": {"type": "integer"}}}
NO_NAMES = {"type": "json_schema", "json_schema": {"schema": {"items": BY_NAMES}}}
NO_SCHEMA = {"type": "json_schema", "json_schema": {"schema": {"type": "text"}}}
CALLING = {"role": "assistant", "tool_calls": [{}]}
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
CHAT_FAULTS = [
    ("messages", {"messages": []}),
    ("messages", {"messages": "Hello"}),
    ("messages", {"messages": HELLO * 10_001}),
    ("messages[0].role", {"messages": [{"content": "Hello"}]}),
    ("messages[0].role", {"messages": [{"role": 1, "content": "Hello"}]}),
    ("messages", {"messages": [{"role": "stranger", "content": "Hello"}]}),
    ("messages", {"messages": [{"role": "user"}]}),
    ("messages", {"messages": [{"role": "user", "content": 3}]}),
    ("messages", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
    ("messages", {"messages": [{"role": "user", "content": "half \ud800"}]}),
    ("messages", {"messages": [{"role": "user", "content": "long " * 40000}]}),
    ("messages[1].tool_calls[0].function", {"messages": [*HELLO, CALLING]}),
    ("max_tokens", {"max_tokens": 0}),
    ("max_tokens", {"max_tokens": "5"}),
    ("max_tokens", {"max_tokens": 1.5}),
    ("max_tokens", {"max_tokens": True}),
    ("max_completion_tokens", {"max_completion_tokens": -1}),
    ("temperature", {"temperature": -0.1}),
    ("temperature", {"temperature": 101}),
    ("temperature", {"temperature": float("nan")}),
    ("temperature", {"temperature": "hot"}),
    ("top_p", {"top_p": 0}),
    ("top_p", {"top_p": 1.1}),
    ("top_p", {"top_p": 1.1, "temperature": 0}),
    ("top_k", {"top_k": -2}),
    ("min_p", {"min_p": 2}),
    ("seed", {"seed": 2**64}),
    ("seed", {"seed": -(2**63) - 1}),
    ("n", {"n": 0}),
    ("n", {"n": 65}),
    ("stop", {"stop": [""]}),
    ("stop", {"stop": 5}),
    ("stop[1]", {"stop": ["a", 5]}),
    ("stop", {"stop": ["\udfff"]}),
    ("stop_token_ids", {"stop_token_ids": [8192]}),
    ("stop_token_ids", {"stop_token_ids": [-1]}),
    ("presence_penalty", {"presence_penalty": 2.1}),
    ("frequency_penalty", {"frequency_penalty": -2.1}),
    ("repetition_penalty", {"repetition_penalty": 0}),
    ("logit_bias", {"logit_bias": {"5": 101}}),
    ("logit_bias", {"logit_bias": {"five": 1}}),
    ("logit_bias", {"logit_bias": {"8192": 1}}),
    ("logit_bias", {"logit_bias": [1]}),
    ("logprobs", {"logprobs": 3}),
    ("top_logprobs", {"logprobs": True, "top_logprobs": 21}),
    ("top_logprobs", {"top_logprobs": 2}),
    ("stream_options", {"stream_options": {"include_usage": True}}),
    ("stream_options.include_use", {"stream": True, "stream_options": {"include_use": True}}),
    ("stream", {"stream": "yes"}),
    ("tools[0].function", {"tools": [{"type": "function"}]}),
    ("tools[0].type", {"tools": [{"type": "web", "function": {"name": "x"}}]}),
    ("tools", {"tools": [CALL, CALL]}),
    ("tool_choice", {"tool_choice": "any"}),
    ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tools": [CALL], "tool_choice": OTHER}),
    ("response_format.type", {"response_format": {"type": "yaml"}}),
    ("response_format.json_schema.schema", {"response_format": {"type": "json_schema"}}),
    ("response_format.json_schema.schema", {"response_format": NO_SCHEMA}),
    ("response_format.json_schema.schema", {"response_format": NO_NAMES}),
    ("tools", {"response_format": {"type": "json_object"}, "tools": [CALL, CALL]}),
    ("chat_template_kwargs", {"chat_template_kwargs": {"messages": []}}),
    ("chat_template_kwargs.enable_thinking", {"chat_template_kwargs": {"enable_thinking": "no"}}),
    ("enable_thinking", {"enable_thinking": "no"}),
    ("reasoning_effort", {"reasoning_effort": "huge"}),
    ("system", {"system": "static:99"}),
    ("system", {"system": "best"}),
    ("functions", {"functions": [{"name": "x"}]}),
    ("best_of", {"best_of": 2}),
    ("min_tokens", {"min_tokens": 5}),
    ("echo", {"echo": True}),
    ("temprature", {"temprature": 1}),
]  # fmt: skip
TEXT_FAULTS = [
    ("prompt", {"prompt": None}),
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": []}),
    ("prompt", {"prompt": [[]]}),
    ("prompt", {"prompt": [1, "a"]}),
    ("prompt", {"prompt": [True]}),
    ("prompt", {"prompt": {"text": "a"}}),
    ("prompt", {"prompt": [8192]}),
    ("prompt", {"prompt": [-1]}),
    ("prompt", {"prompt": ["fine", ""]}),
    ("prompt", {"prompt": ["a"] * 65}),
    ("prompt", {"prompt": [5] * 32768}),
    ("logprobs", {"logprobs": True}),
    ("logprobs", {"logprobs": 21}),
    ("max_tokens", {"max_tokens": 0}),
    ("suffix", {"suffix": "end"}),
    ("messages", {"messages": HELLO}),
    ("echo", {"echo": 1}),
]


def refused(response, status=400):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"].endswith(".")
    return error


def post(client, path, body):
    content = json.dumps(body)  # with what JSON does not have, such as NaN
    return client.post(path, content=content, headers={"content-type": "application/json"})


STREAMED = [(param, fault) for param, fault in CHAT_FAULTS if not param.startswith("stream")]


@pytest.mark.parametrize(("param", "fault"), CHAT_FAULTS, ids=lambda value: str(value)[:99])
def test_a_wrong_field_of_a_chat_is_named(client, param, fault):
    assert refused(post(client, CHAT, {"messages": HELLO, **fault}))["param"] == param


@pytest.mark.parametrize(("param", "fault"), STREAMED, ids=lambda value: str(value)[:99])
def test_a_stream_is_refused_before_it_begins(client, param, fault):
    body = {"messages": HELLO, "stream": True, **fault}
    assert refused(post(client, CHAT, body))["param"] == param


@pytest.mark.parametrize(("param", "fault"), TEXT_FAULTS, ids=lambda value: str(value)[:40])
def test_a_wrong_field_of_a_completion_is_named(client, param, fault):
    assert refused(post(client, TEXT, {"prompt": "Hello", **fault}))["param"] == param


@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize", "/detokenize"])
@pytest.mark.parametrize(
    "body", ["", "{", "[]", "5", '"text"', "null", "[" * 100000, "{}", '{"a":1}']
)
def test_what_is_no_request_is_refused(client, path, body):
    headers = {"content-type": "application/json"}
    refused(client.post(path, content=body, headers=headers))


def test_a_body_that_does_not_say_it_is_json_is_refused(client):
    body = json.dumps({"messages": HELLO})
    refused(client.post(CHAT, content=body, headers={"content-type": "text/plain"}))


def test_an_unknown_model_is_a_404(client):
    error = refused(post(client, CHAT, {"messages": HELLO, "model": "gpt-\ud800"}), 404)
    assert (error["param"], error["code"]) == ("model", "model_not_found")
    assert refused(client.get("/v1/models/gpt"), 404)["param"] == "model"
    assert (
        refused(post(client, "/tokenize", {"prompt": "a", "model": "x"}), 404)["param"] == "model"
    )


def test_routes_and_methods_that_are_none_have_the_same_shape(client):
    refused(client.get("/v1/nothing"), 404)
    refused(client.get(CHAT), 405)
    refused(client.delete("/health"), 405)


@pytest.mark.parametrize(
    ("param", "fault"),
    [
        ("prompt", {}),
        ("prompt", {"prompt": "a", "messages": HELLO}),
        ("prompt", {"prompt": "\ud800"}),
        ("messages", {"messages": [{"role": "user"}]}),
        ("messages", {"messages": []}),
        ("prompt", {"prompt": 5}),
    ],
)
def test_tokenize_names_what_is_wrong(client, param, fault):
    assert refused(post(client, "/tokenize", fault))["param"] == param


def test_detokenize_names_what_is_wrong(client):
    assert refused(post(client, "/detokenize", {"tokens": [10**9]}))["param"] == "tokens"
    assert refused(post(client, "/detokenize", {"tokens": ["a"]}))["param"] == "tokens[0]"


def test_every_parameter_of_openais_is_known():
    """None is unknown: each is served, ignored for a reason, or refused by its name."""
    for request, params in (
        (ChatRequest, chat_create_params.CompletionCreateParamsBase),
        (CompletionRequest, completion_create_params.CompletionCreateParamsBase),
    ):
        known = {*request.model_fields, *IGNORED, *NEUTRAL}
        assert set(params.__annotations__) <= known


def test_no_parameter_is_in_two_tables():
    assert not set(IGNORED) & set(NEUTRAL)
    assert not set(ChatRequest.model_fields) & set(IGNORED)


def test_ignored_parameters_change_nothing_and_neutral_values_pass(client):
    plain = {"messages": HELLO, "max_tokens": 5, "temperature": 0}
    wanted = post(client, CHAT, plain).json()["choices"]
    ignored = {name: {"any": "thing"} for name in IGNORED}
    neutral = {name: values[0] if values else None for name, values in NEUTRAL.items()}
    assert post(client, CHAT, {**plain, **ignored, **neutral}).json()["choices"] == wanted


def test_null_is_the_default(client):
    nothing = {name: None for name in ChatRequest.model_fields if name != "messages"}
    assert post(client, CHAT, {**nothing, "messages": HELLO}).status_code == 200
    nothing = {name: None for name in CompletionRequest.model_fields if name != "prompt"}
    assert post(client, TEXT, {**nothing, "prompt": "Hello"}).status_code == 200


def test_the_docs_list_every_parameter():
    docs = (Path(__file__).parents[2] / "docs" / "server.md").read_text()
    missing = {
        name
        for name in {*ChatRequest.model_fields, *CompletionRequest.model_fields, *IGNORED, *NEUTRAL}
        if f"`{name}`" not in docs
    }
    assert not missing


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = sorted(ChatRequest.model_fields)


@given(name=st.sampled_from(FIELDS), value=JSON)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_value_of_any_field_is_a_defect(client, name, value):
    body = {"messages": HELLO, "max_tokens": 1, "n": 1, **{name: value}}
    if name in ("max_tokens", "max_completion_tokens", "n"):
        body["stop"] = ["e"]
    assert post(client, CHAT, body).status_code in (200, 400, 404)


@pytest.mark.parametrize(
    "edge",
    [
        {"top_k": 2**70},
        {"max_tokens": 2**80, "stop": ["e"]},
        {"temperature": 1e-320},
        {"temperature": 1e-30},
        {"temperature": 100, "min_p": 1},
        {"top_p": 1e-320},
        {"logit_bias": {"5": 10**400}},
        {"logit_bias": {"5": 1e-320}},
        {"temperature": 10**400},
        {"seed": 10**400},
        {"stop_token_ids": [10**30]},
        {"stop": ["x"] * 1000},
    ],
    ids=str,
)
def test_values_at_the_edge_of_numbers_are_no_defects(client, edge):
    body = {"messages": HELLO, "max_tokens": 2, "temperature": 1.0, **edge}
    assert post(client, CHAT, body).status_code in (200, 400)
