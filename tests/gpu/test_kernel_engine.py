"""The engine with its verifications as kernels: bit-equal among all lengths; torch's own words.

Run by `make test-gpu`.
"""

from __future__ import annotations

import pytest
import torch

from hybridspec import Engine, SamplingParams, assets
from hybridspec.policy.profile import load_profile
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetState

pytestmark = pytest.mark.gpu
PROMPTS = (
    "Write a Python function that returns the largest number in a list.",
    "Tell me a short story about a fox and a river.",
    "What is 17 + 26? Explain.",
    "List three things that one needs for a picnic.",
)
SYSTEMS = (
    *(f"static:{w}" for w in (1, 2, 3, 5, 8, 11, 16)), "length16", "ema", "cascade", "hybridspec",
    "evict-cal",
)  # fmt: skip
GREEDY = SamplingParams(max_tokens=96, ignore_eos=True)
SEEDED = SamplingParams(max_tokens=96, temperature=0.9, top_p=0.95, seed=7, ignore_eos=True)


def engine(dtype: str, *, kernels: bool = True) -> Engine:
    return Engine.load(
        assets.TARGET, assets.DRAFTER, device="cuda", dtype=dtype, max_context=1024, kernels=kernels
    )


@pytest.fixture(scope="module")
def ours() -> Engine:
    """With the profile of another machine, which is a policy like any."""
    made = engine("bfloat16")
    made.profile = load_profile(assets.PROFILE)
    return made


def test_the_kernels_are_used(ours):
    assert isinstance(ours.target, LaunchedTarget)
    assert not isinstance(engine("bfloat16", kernels=False).target, LaunchedTarget)


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_length_says_what_plain_decoding_says_in_bf16(ours, prompt, params):
    """bf16 has near ties everywhere: equal answers mean equal bits."""
    plain = ours.generate(prompt, params, system="ar", chat=True).token_ids
    assert len(plain) == params.max_tokens
    for system in SYSTEMS:
        answer = ours.generate(prompt, params, system=system, chat=True)
        assert answer.token_ids == plain, system


def test_the_committed_state_has_plain_decoding_s_bits(ours):
    states = {}
    for system in ("ar", "static:7"):
        ours.generate(PROMPTS[1], GREEDY, system=system, chat=True)
        state: TargetState = ours._state
        slot_length = len(ours.encode(PROMPTS[1], chat=True)) + GREEDY.max_tokens - 1
        states[system] = {
            "gdn": state.gdn.clone(),
            "columns": state.conv[:, :, :3].clone(),
            "keys": state.keys[..., :slot_length, :].clone(),
            "values": state.values[..., :slot_length, :].clone(),
        }
    for name, plain in states["ar"].items():
        assert torch.equal(states["static:7"][name], plain), name


@pytest.mark.parametrize("prompt", PROMPTS)
def test_in_float32_the_torch_path_says_the_same(prompt):
    """Sums in another order: a token may differ only where the two best logits nearly tie."""
    ours, theirs = engine("float32"), engine("float32", kernels=False)
    answers = [e.generate(prompt, GREEDY, system="static:5", chat=True) for e in (ours, theirs)]
    a, b = (answer.token_ids for answer in answers)
    if a != b:
        first = next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
        ids = [*theirs.encode(prompt, chat=True), *a[:first]]
        slot = TargetState(
            theirs.target.config, 1024, device=theirs.target.device, dtype=torch.float32
        ).slot()
        logits = theirs.target.prefill(torch.tensor(ids, device="cuda"), slot).logits[0]
        best = logits.topk(2).values
        assert float(best[0] - best[1]) < 1e-3, f"token {first} differs without a near tie"
