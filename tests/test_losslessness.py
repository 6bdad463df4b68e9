"""Every system gives plain decoding's tokens, greedy and sampled, whatever the drafter proposes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from committed import assert_committed
from hybridspec.core import SamplingParams
from hybridspec.runtime.sampling import target_tokens
from hybridspec.runtime.state import TargetState
from lossless import differences
from scripted import RIGHT, TINY, TINY_DRAFTER, prompt_ids, run, script, scripted_engine

SYSTEMS = {
    "float32": ["dflash", *(f"static:{w}" for w in range(1, 17))],
    "float64": ["dflash", "static:1", "static:2", "static:5", "static:16"],
}
SAMPLING = {
    "greedy": {},
    "T=1": {"temperature": 1.0, "seed": 1},
    "filtered": {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "min_p": 0.01, "seed": 2},
}
PLANS = {"random": (), "mixed": (0, 3, RIGHT, 1, 7, 2, RIGHT), "always right": (RIGHT,)}
DTYPES = {"float32": torch.float32, "float64": torch.float64}
TOKENS = 28


@pytest.fixture(scope="module", params=DTYPES)
def engine(request):
    return scripted_engine(DTYPES[request.param])


@pytest.fixture(scope="module")
def exact_engine():
    return scripted_engine(torch.float64)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("sampling", SAMPLING)
def test_all_systems_give_the_tokens_of_ar(engine, sampling, plan):
    prompt, params = prompt_ids(), SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling])
    script(engine, prompt, PLANS[plan], max_tokens=TOKENS, **SAMPLING[sampling])
    systems = SYSTEMS[str(engine.target.dtype).removeprefix("torch.")]
    assert differences(engine, [prompt], systems, params) == []


@pytest.mark.parametrize("system", ["dflash", "static:16"])
@pytest.mark.parametrize("sampling", ["greedy", "T=1"])
def test_every_number_of_accepted_drafts(engine, system, sampling):
    """A through 0..15 and m through 1..16, in an order that mixes long and short rounds."""
    plan = [7 * i % 16 for i in range(16)]
    tokens = 1 + sum(a + 1 for a in plan)
    prompt = prompt_ids(seed=1)
    expected = script(engine, prompt, plan, max_tokens=tokens, **SAMPLING[sampling])
    params = SamplingParams(max_tokens=tokens, **SAMPLING[sampling])
    answer, _ = run(engine, prompt, system, params)
    assert answer.token_ids == expected
    assert [r.accepted for r in answer.stats.rounds] == plan
    assert [r.committed for r in answer.stats.rounds] == [a + 1 for a in plan]


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("system", ["ar", "dflash"])
def test_every_token_is_the_targets_own_at_its_position(engine, system, sampling):
    """Against a fresh prefill of the tokens before it, drawn with the number of its position."""
    prompt, params = prompt_ids(), SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling])
    script(engine, prompt, (4, 0), max_tokens=TOKENS, **SAMPLING[sampling])
    answer, _ = run(engine, prompt, system, params)
    for i, token in enumerate(answer.token_ids):
        before = torch.tensor([*prompt, *answer.token_ids[:i]])
        slot = TargetState(engine.target.config, 100, dtype=engine.target.dtype).slot()
        logits = engine.target.prefill(before, slot).logits
        assert target_tokens(logits, torch.tensor([len(before)]), params, params.seed or 0) == token


def test_sampling_is_not_greedy(engine):
    """The sampled cases above would show nothing if they decoded the most likely tokens."""
    prompt = prompt_ids()
    greedy, *sampled = (
        run(engine, prompt, "ar", SamplingParams(max_tokens=TOKENS, **s))[0].token_ids
        for s in SAMPLING.values()
    )
    assert len({greedy, *sampled}) == len(SAMPLING)


@settings(deadline=None, max_examples=25)
@given(
    plan=st.lists(st.integers(0, 16), min_size=1, max_size=6),
    w=st.integers(2, 16),
    tokens=st.integers(1, 70),
    length=st.integers(1, 60),
    temperature=st.sampled_from([0.0, 0.8]),
)
def test_any_acceptance_any_length(exact_engine, plan, w, tokens, length, temperature):
    """In float64: over thousands of random tokens, float32 would meet a near tie now and then."""
    engine = exact_engine
    prompt, sampling = prompt_ids(length), {"temperature": temperature, "seed": 5}
    expected = script(engine, prompt, plan, max_tokens=tokens, **sampling)
    params = SamplingParams(max_tokens=tokens, **sampling)
    answer, _ = run(engine, prompt, f"static:{w}", params)
    assert answer.token_ids == expected
    wanted = [min(plan[i % len(plan)], r.w - 1) for i, r in enumerate(answer.stats.rounds)]
    assert [r.accepted for r in answer.stats.rounds] == wanted


def test_five_repeats_between_other_requests(engine):
    """One clean run is weak evidence: what a request leaves behind must not reach the next."""
    prompt, other = prompt_ids(20, seed=2), prompt_ids(70, seed=3)
    script(engine, prompt, (2, RIGHT, 0, 9), max_tokens=TOKENS)
    for system in ("dflash", "static:5"):
        for repeat in range(5):
            assert differences(engine, [prompt], [system], SamplingParams(max_tokens=TOKENS)) == []
            noise = SamplingParams(max_tokens=7 + repeat, temperature=1.0, seed=repeat)
            run(engine, other, ("ar", "dflash", "static:3")[repeat % 3], noise)


@pytest.mark.parametrize("prompt_tokens", [1, 2, 3, 4])
def test_prompts_shorter_than_the_convolution(engine, prompt_tokens):
    prompt = prompt_ids(prompt_tokens, seed=4)
    script(engine, prompt, (3, 0, RIGHT), max_tokens=24)
    systems = ["dflash", "static:4"]
    assert differences(engine, [prompt], systems, SamplingParams(max_tokens=24)) == []


LINEAR, FULL, SLIDING = "linear_attention", "full_attention", "sliding_attention"
PAIRS = {
    "block of 2": ({}, {"block_size": 2}),
    "attention alone": ({"layer_types": (FULL,) * 4}, {}),
    "block of 8": ({}, {"block_size": 8}),
    "window of 1": ({}, {"sliding_window": 1}),
    "window below the block": ({}, {"sliding_window": 5, "layer_types": (SLIDING, SLIDING)}),
    "no window": ({}, {"sliding_window": None, "layer_types": (FULL,)}),
    "causal drafter": ({}, {"is_causal": True}),
    "one tap, the last layer": ({}, {"target_layer_ids": (3,)}),
    "attention first": ({"layer_types": (FULL, LINEAR, LINEAR, LINEAR)}, {}),
    "attention last": ({"layer_types": (LINEAR, LINEAR, LINEAR, FULL)}, {}),
    "GDN alone": ({"layer_types": (LINEAR,) * 4}, {}),
    "tied head": ({"tie_word_embeddings": True}, {}),
    "short convolution": ({"linear_conv_kernel_dim": 2}, {}),
    "long convolution": ({"linear_conv_kernel_dim": 6}, {}),
}


@pytest.mark.parametrize("name", PAIRS)
def test_any_pair_of_the_family(name):
    """Tokens of plain decoding and the states of a fresh run, in float64."""
    target, drafter = PAIRS[name]
    engine = scripted_engine(
        torch.float64,
        target=dataclasses.replace(TINY, **target),
        drafter=dataclasses.replace(TINY_DRAFTER, **drafter),
    )
    prompt = prompt_ids(11)
    expected = script(engine, prompt, (1, RIGHT, 0, 6), max_tokens=36)
    for system in ("ar", "static:2", "dflash"):
        answer, stream = run(engine, prompt, system, SamplingParams(max_tokens=36))
        assert answer.token_ids == expected
        assert_committed(engine, stream, [*prompt, *expected[:-1]])
