"""What is read of a body is bounded, and so are the faults that are found in it.

Python runs no other thread while a body is read, so a long one would stop the streams of others.
"""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from hybridspec.serving.errors import ApiError
from hybridspec.serving.protocol import (
    ChatRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)

HELLO = {"role": "user", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "look"}}


@pytest.mark.parametrize(
    ("place", "request_of", "body"),
    [
        ("messages", ChatRequest, {"messages": [HELLO] * 10_001}),
        ("messages", TokenizeRequest, {"messages": [HELLO] * 10_001}),
        ("tools", ChatRequest, {"messages": [HELLO], "tools": [TOOL] * 2001}),
        ("prompt", CompletionRequest, {"prompt": [[1] * 2**19, [1] * (2**19 + 1)]}),
        ("prompt", CompletionRequest, {"prompt": [1] * (2**20 + 1)}),
        ("tokens", DetokenizeRequest, {"tokens": [1] * (2**20 + 1)}),
    ],
)
def test_one_more_than_the_most_is_refused(place, request_of, body):
    with pytest.raises(ValidationError) as refused:
        request_of.model_validate(body)
    [error] = refused.value.errors(include_input=False)
    assert error["loc"][0] == place
    assert "at most" in error["msg"]


def test_as_many_as_there_may_be_are_taken():
    ChatRequest.model_validate({"messages": [HELLO] * 10_000, "tools": [TOOL] * 2000})
    CompletionRequest.model_validate({"prompt": [[1] * 2**14] * 64})


@pytest.mark.parametrize(
    ("request_of", "body"),
    [
        (ChatRequest, {"messages": [{}] * 50}),
        (ChatRequest, {"messages": [{"role": "user", "tool_calls": [{}] * 50}]}),
        (ChatRequest, {"messages": [HELLO], "tools": [{}] * 50}),
        (ChatRequest, {"messages": [HELLO], "stop": [1] * 50}),
        (ChatRequest, {"messages": [HELLO], "stop_token_ids": ["a"] * 50}),
        (ChatRequest, {"messages": [HELLO], "logit_bias": {str(i): "x" for i in range(10_001)}}),
        (DetokenizeRequest, {"tokens": ["a"] * 50}),
    ],
)
def test_a_list_of_faults_is_one_fault(request_of, body):
    with pytest.raises(ValidationError) as refused:
        request_of.model_validate(body)
    assert refused.value.error_count() == 1


@pytest.mark.parametrize("place", [(), ("response_format",), ("stream_options",)])
def test_many_unknown_fields_are_one_fault(place):
    body = {str(i): 1 for i in range(1001)}
    for name in place:
        body = {name: body}
    with pytest.raises(ApiError, match=r"1,001 fields; expected at most 1,000|Unknown parameter"):
        ChatRequest.model_validate({"messages": [HELLO], **body})
    with pytest.raises(ApiError, match="fields; expected at most 1,000"):
        DetokenizeRequest.model_validate({"tokens": [1], **{str(i): 1 for i in range(1001)}})
