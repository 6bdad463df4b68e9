"""The engine on CUDA: equal answers from all systems, and from a GPU and a CPU.

Run by `make test-gpu` on a machine with a GPU; it fails, not skips, without one.
"""

from __future__ import annotations

import json

import pytest
import torch

from builders import drafter_config, fill, target_config
from hybridspec import Engine, SamplingParams, assets
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

pytestmark = pytest.mark.gpu
PROMPT = list(range(1, 20))
GREEDY = SamplingParams(max_tokens=60)
SEEDED = SamplingParams(max_tokens=60, temperature=1.0, top_p=0.9, seed=5)

STEERED = SamplingParams(
    max_tokens=60, temperature=0.8, seed=5, presence_penalty=0.8, frequency_penalty=0.2,
    repetition_penalty=1.2, logit_bias={3: 2.0, 40: -100.0}, logprobs=3,
)  # fmt: skip
ASKED = pytest.mark.parametrize(
    "params", [GREEDY, SEEDED, STEERED], ids=["greedy", "seeded", "steered"]
)


def small_engine(device: str, dtype: torch.dtype) -> Engine:
    config = target_config()
    target = Target(config, device, dtype)
    drafter = Drafter(drafter_config(config), device, dtype)
    fill(target, 0)
    fill(drafter, 1)
    return Engine(target, drafter, max_context=300)


@ASKED
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_systems_agree(dtype, params):
    engine = small_engine("cuda", dtype)
    plain = engine.generate(PROMPT, params, system="ar").token_ids
    for system in ("static:1", "static:3", "static:8", "static:16", "dflash"):
        assert engine.generate(PROMPT, params, system=system).token_ids == plain


@ASKED
def test_a_gpu_says_what_a_cpu_says(params):
    """float64 on both sides, so that no near tie can turn."""
    ours = small_engine("cuda", torch.float64).generate(PROMPT, params)
    theirs = small_engine("cpu", torch.float64).generate(PROMPT, params)
    assert ours.token_ids == theirs.token_ids
    assert len(ours.logprobs) == len(theirs.logprobs)
    for one, other in zip(ours.logprobs, theirs.logprobs, strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-9)  # float64 sums in other orders


def test_json_on_a_gpu():
    pytest.importorskip("xgrammar")
    engine = Engine.load(assets.TARGET, assets.DRAFTER, device="cuda", dtype="float32")
    schema = {"type": "object", "properties": {"age": {"enum": [1, 2]}}, "required": ["age"]}
    grammar = engine.grammar(schema)
    answers = [
        engine.generate("How old?", chat=True, grammar=grammar, system=system).text
        for system in ("ar", "static:5", "dflash")
    ]
    assert json.loads(answers[0])["age"] in (1, 2)
    assert len(set(answers)) == 1
    assert len(engine.score(list(range(1, 300)), 2)) == 299


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_embedded_pair_runs(dtype):
    """bfloat16 turns near ties between row counts, so only float32 answers must be equal."""
    engine = Engine.load(assets.TARGET, assets.DRAFTER, device="cuda", dtype=dtype)
    prompt = "Write a Python function that returns the largest number in a list."
    answers = [
        engine.generate(prompt, chat=True, system=system) for system in ("ar", "static:5", "dflash")
    ]
    assert all(a.text.strip() for a in answers)
    assert answers[2].stats.mean_acceptance_length > 1.5
    if dtype == "float32":
        assert len({a.token_ids for a in answers}) == 1
