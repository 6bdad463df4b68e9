"""Prompts far beyond the context are refused by their beginning, and no other is."""

from __future__ import annotations

import pytest

from hybridspec.serving import Settings
from hybridspec.serving.chat_plan import plan_chat
from hybridspec.serving.errors import ApiError
from hybridspec.serving.prompts import CHARACTERS, encoded
from hybridspec.serving.protocol import ChatRequest
from hybridspec.text.tokenizer import Tokenizer


@pytest.fixture
def lengths(monkeypatch):
    """Lengths of the texts that the tokenizer is given."""
    given, real = [], Tokenizer.encode

    def encode(self, text, **options):
        given.append(len(text))
        return real(self, text, **options)

    monkeypatch.setattr(Tokenizer, "encode", encode)
    return given


@pytest.mark.parametrize("special", [True, False])
def test_a_text_far_beyond_the_context_is_not_encoded_to_its_end(engine, lengths, special):
    with pytest.raises(ApiError) as refused:
        encoded(engine, "word " * 10**6, param="prompt", special=special)
    assert lengths == [CHARACTERS * engine.max_context]
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
    assert f"more than {engine.max_context} tokens" in refused.value.detail


def planned(engine, messages):
    return plan_chat(engine, Settings(), ChatRequest.model_validate({"messages": messages}))


@pytest.mark.parametrize("each", ["word " * 10**6, "word " * 100])
def test_a_chat_far_beyond_the_context_is_not_encoded_to_its_end(engine, lengths, each):
    messages = [{"role": "user", "content": each}] * (5 * 10**6 // len(each))
    with pytest.raises(ApiError) as refused:
        planned(engine, messages)
    assert lengths == [CHARACTERS * engine.max_context]
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")


def test_a_chat_of_more_messages_than_tokens_is_not_even_rendered(engine, monkeypatch):
    monkeypatch.setattr(Tokenizer, "render_chat", None)
    monkeypatch.setattr(engine, "max_context", 500)
    with pytest.raises(ApiError) as refused:
        planned(engine, [{"role": "user", "content": "x"}] * engine.max_context)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")


def test_a_text_a_little_beyond_is_counted(engine, lengths):
    with pytest.raises(ApiError) as refused:
        encoded(engine, "word " * engine.max_context, param="prompt")
    assert len(lengths) == 1
    assert f"has {engine.max_context + 1} tokens" in refused.value.detail


def test_a_long_text_of_few_tokens_is_taken(engine):
    text = "x" + " " * (CHARACTERS * engine.max_context + 1000)
    assert encoded(engine, text, param="prompt") == engine.encode(text)
