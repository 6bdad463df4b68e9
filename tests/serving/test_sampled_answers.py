"""Penalties, bias and log-probabilities through the server, on every system (A32, A57)."""

from __future__ import annotations

import pytest
from test_chat_route import ask, stream

SYSTEMS = ("static:4", "dflash", "auto", "hybridspec")
SHAPES = {
    "presence": {"temperature": 0, "presence_penalty": 1.5},
    "frequency": {"temperature": 0, "frequency_penalty": 0.7},
    "repetition": {"temperature": 0, "repetition_penalty": 1.3},
    "bias": {"temperature": 0, "logit_bias": {"290": -100, "714": 5}},
    "seeded": {"temperature": 1.0, "top_p": 0.95, "top_k": 50, "seed": 4, "presence_penalty": 0.5},
}


@pytest.fixture(scope="module")
def plain(client):
    """Plain decoding's answers, and its answer without any of it."""
    made = {name: ask(client, max_tokens=40, system="ar", **body) for name, body in SHAPES.items()}
    return made | {"": ask(client, max_tokens=40, system="ar", temperature=0)}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_is_plain_decodings(client, plain, system, shape):
    answer = ask(client, max_tokens=40, system=system, **SHAPES[shape])
    assert answer["choices"] == plain[shape]["choices"]
    assert answer["choices"] != plain[""]["choices"]


@pytest.mark.parametrize("top", [None, 5, 20])
def test_logprobs_are_plain_decodings(client, top):
    body = {"max_tokens": 14, "temperature": 0, "logprobs": True}
    body |= {} if top is None else {"top_logprobs": top}
    wanted = ask(client, system="ar", **body)["choices"][0]["logprobs"]["content"]
    assert len(wanted) == 14
    assert all(len(token["top_logprobs"]) == (top or 0) for token in wanted)
    for system in SYSTEMS:
        assert_logprobs(client, wanted, system, body)


def assert_logprobs(client, wanted, system, body):
    found = ask(client, system=system, **body)["choices"][0]["logprobs"]["content"]
    assert found == wanted  # bit for bit: one CPU, and rows that do not depend on their number
    chunks = stream(client, system=system, **body)
    parts = [c["logprobs"]["content"] for e in chunks for c in e["choices"] if c["logprobs"]]
    assert [token for part in parts for token in part] == wanted


def test_a_token_that_ends_the_answer_has_its_logprob_too(client):
    choice = ask(client, temperature=0, logprobs=True, return_token_ids=True)["choices"][0]
    tokens = choice["logprobs"]["content"]
    assert len(tokens) == len(choice["token_ids"])
    assert tokens[-1]["token"] == "<|im_end|>"
    text = "".join(token["token"] for token in tokens[:-1])
    assert text == choice["message"]["content"]
