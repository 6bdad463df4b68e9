"""Arguments of another type, or that would be read over: each refused by its name."""

from __future__ import annotations

import inspect

import pytest
import torch

from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import HybridSpecError, OptionError, RequestError
from hybridspec.policy.length import FixedLength
from hybridspec.systems import System
from scripted import prompt_ids, scripted_engine


@pytest.fixture(scope="module")
def engine():
    return scripted_engine()


LOAD = [
    ("device", torch.device("cpu")),
    ("device", None),
    ("dtype", torch.float32),
    ("dtype", 32),
    ("max_context", "100"),
    ("max_context", 100.0),
    ("max_context", True),
    ("progress", "yes"),
    ("model", 5),
    ("draft", ["x"]),
    ("revision", 1),
    ("revision", "main"),
    ("draft_revision", "main"),
]


@pytest.mark.parametrize(("name", "value"), LOAD)
def test_options_of_loading(name, value):
    with pytest.raises(OptionError, match=f"^{name} is "):
        Engine.load(**{name: value})


def test_an_empty_name_of_a_drafter_is_not_the_embedded_one():
    with pytest.raises(HybridSpecError, match=r"drafter .*no checkpoint at ''"):
        Engine.load(draft="")


REQUEST = [
    ("params", {"max_tokens": 5}),
    ("params", {}),
    ("params", 0.5),
    ("system", 5),
    ("system", b"ar"),
    ("system", ["ar"]),
    ("chat", "yes"),
    ("chat", None),
    ("enable_thinking", 1),
]


@pytest.mark.parametrize("call", ["stream", "generate"])
@pytest.mark.parametrize(("name", "value"), REQUEST)
def test_options_of_a_request(engine, call, name, value):
    with pytest.raises(OptionError, match=f"^{name} is "):
        getattr(engine, call)(prompt_ids(), **{name: value})


@pytest.mark.parametrize("token", [-1, 512, 10**30])
def test_stop_ids_that_no_token_has(engine, token):
    params = SamplingParams(stop_token_ids=(0, 511, token))
    with pytest.raises(OptionError, match=f"^stop_token_ids names {token}; expected ids from 0 to"):
        engine.generate(prompt_ids(), params)
    engine.generate(prompt_ids(), SamplingParams(max_tokens=1, stop_token_ids=(0, 511)))


@pytest.mark.parametrize("token", [-1, 512])
def test_a_bias_for_a_token_that_is_none(engine, token):
    params = SamplingParams(max_tokens=1, logit_bias={0: 1.0, 511: 1.0, token: 1.0})
    with pytest.raises(OptionError, match=f"^logit_bias names {token}; expected ids from 0 to 511"):
        engine.generate(prompt_ids(), params)


PROMPTS = [None, 5, b"x", {"role": "user"}, torch.tensor([1]), [1.0], [[]]]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_prompts_of_another_type(engine, prompt):
    with pytest.raises(RequestError, match=r"^The prompt (is a|holds) "):
        engine.generate(prompt)


def test_a_long_value_is_cut_in_its_sentence(engine):
    for options in ({"prompt": [[1] * 10**6]}, {"prompt": [1], "params": [1] * 10**6}):
        with pytest.raises(RequestError) as refused:
            engine.generate(**options)
        assert len(str(refused.value)) < 500


def test_generate_takes_what_stream_takes():
    stream, generate = (inspect.signature(f) for f in (Engine.stream, Engine.generate))
    assert generate.parameters == stream.parameters
    assert generate.return_annotation == "Generation"
    with pytest.raises(TypeError, match="unexpected keyword"):
        Engine.generate(None, "x", bogus=1)


@pytest.mark.parametrize(
    ("policy", "verifier"),
    [(FixedLength(0), "exact"), (FixedLength(17), "exact"), (FixedLength(2.5), "exact"),
     (None, "exact"), (FixedLength(3), "foo")],
)  # fmt: skip
def test_a_system_of_ones_own_is_looked_at(policy, verifier):
    engine = scripted_engine()
    with pytest.raises(OptionError, match="system"):
        engine.stream([1, 2], system=System("mine", policy, verifier))


@pytest.mark.parametrize("value", ["yes", 1, None])
@pytest.mark.parametrize("option", ["explain", "keep_drafts"])
def test_what_is_kept_of_a_round_is_true_or_false(option, value):
    with pytest.raises(OptionError, match=option):
        scripted_engine().stream([1, 2], **{option: value})


def test_an_engine_is_short_in_messages():
    assert repr(scripted_engine(max_context=64)).endswith(
        "of a target and a drafter, system static:4, on cpu in float32, context 64>"
    )
    assert repr(Engine.load(max_context=32, device="cpu", dtype="float64")) == (
        "<Engine of the embedded pair, system static:4, on cpu in float64, context 32>"
    )
