"""Every GDN verifier as launches on CUDA, recorded: at the 35B's heads in bf16, and in the engine.

Run by `make test-gpu`.
"""

from __future__ import annotations

import pytest
import torch

from hybridspec import Engine, SamplingParams, assets
from hybridspec.checkpoint import load_target
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import VERIFY
from hybridspec.model.target import Target
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetSlot, TargetState

pytestmark = pytest.mark.gpu
CONFIG = TargetConfig(
    vocab_size=1000, hidden_size=2048,
    layer_types=("linear_attention", "linear_attention", "full_attention"), num_attention_heads=16,
    num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
    linear_key_head_dim=128, linear_value_head_dim=128, num_experts=64, num_experts_per_tok=8,
    moe_intermediate_size=512, shared_expert_intermediate_size=512, max_position_embeddings=4096,
)  # fmt: skip
# w and m of rounds, u = w: in `replay` the third makes 20 tokens pending, more than may stay
ROUNDS = [(16, 9), (4, 3), (8, 8), (1, 1), (6, 2)]
TOLERANCE = 2e-4  # float32 on one side: sums of some hundred products, through all layers
PROMPT = "Write a Python function that returns the largest number in a list."


@pytest.fixture(scope="module")
def half() -> LaunchedTarget:
    """Random weights in bf16, so that the streaming kernels are taken."""
    g = torch.Generator("cuda").manual_seed(0)
    target = Target(CONFIG, "cuda", torch.bfloat16)
    for name, weight in target.slots().items():
        size = 0.5 if name.endswith("conv1d.weight") else weight.shape[-1] ** -0.5
        weight.normal_(0.0, size if weight.ndim >= 2 else 0.1, generator=g)
    target.prepare()
    target.set_context(512)
    return LaunchedTarget(target)


@pytest.fixture(scope="module")
def pair() -> tuple[LaunchedTarget, Target]:
    """The embedded target in float32 by kernels, and in float64 by plain torch."""
    ours, law = (
        load_target(assets.TARGET, torch.device("cuda"), t) for t in (torch.float32, torch.float64)
    )
    for target in (ours, law):
        target.set_context(512)
    return LaunchedTarget(ours), law


def begun(target: Target) -> TargetSlot:
    """A sequence of 64 tokens."""
    slot = TargetState(target.config, 512, device="cuda", dtype=target.dtype, joint=True).slot()
    target.prefill(torch.arange(64, device="cuda") * 7 % 1000, slot)
    return slot


def inputs(i: int, w: int) -> torch.Tensor:
    return (torch.arange(w, device="cuda") * 31 + 17 * i) % 1000


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("cut", [False, True], ids=["unsplit", "split"])
@pytest.mark.parametrize("verifier", ["per-token", "replay"])
def test_baselines_have_the_bits_of_exact(half, verifier, cut):
    slots = {name: begun(half) for name in ("exact", verifier)}
    for i, (w, m) in enumerate(ROUNDS):
        found = []
        for name, slot in slots.items():
            if cut:
                looked = half.stage0(inputs(i, w), slot, name)
                found.append(half.stage1(looked, max(m, w - 1), slot, name).logits)
            else:
                found.append(half.verify_unsplit(inputs(i, w), slot, name).logits)
            half.commit(slot, m, name)
        assert torch.equal(*found), i
        if slots[verifier].pending == 0:
            assert torch.equal(slots[verifier].checkpoint, slots["exact"].checkpoint), i
    assert slots[verifier].pending == {"replay": 3}.get(verifier, 0)
    # with tokens pending the state is added up in one step, in float32
    assert distance(slots[verifier].gdn, slots["exact"].gdn.double()) < 1e-5


@pytest.mark.parametrize("verifier", VERIFY)
def test_rounds_are_the_law_s(pair, verifier):
    ours, law = pair
    mine, theirs = begun(ours), begun(law)
    for i, (w, m) in enumerate(ROUNDS):
        found = ours.verify_unsplit(inputs(i, w), mine, verifier).logits
        exact = law.verify_unsplit(inputs(i, w), theirs, verifier).logits
        assert distance(found, exact) < TOLERANCE, i
        ours.commit(mine, m, verifier)
        law.commit(theirs, m, verifier)
        assert distance(mine.gdn, theirs.gdn) < TOLERANCE, i


def test_verifiers_take_turns_over_one_sequence(pair):
    """Each has its recordings, all of them over the same memory."""
    ours, law = pair
    mine, theirs = begun(ours), begun(law)
    turns = ("replay", "exact", "per-token", "replay", "replay", "block", "exact")
    for i, name in enumerate(turns):
        found = ours.verify_unsplit(inputs(i, 5), mine, name).logits
        exact = law.verify_unsplit(inputs(i, 5), theirs, "exact").logits
        assert distance(found, exact) < TOLERANCE, name
        ours.commit(mine, 3, name)
        law.commit(theirs, 3, "exact")
    assert distance(mine.gdn, theirs.gdn) < TOLERANCE


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(
        assets.TARGET, assets.DRAFTER, device="cuda", dtype="bfloat16", max_context=1024,
        launcher="host",
    )  # fmt: skip


@pytest.mark.parametrize(
    "sampling", [{}, {"temperature": 0.9, "top_p": 0.95, "seed": 7}], ids=["greedy", "seeded"]
)
@pytest.mark.parametrize("system", ["dflash", "static:5:per-token", "static:8:replay"])
def test_an_engine_says_what_plain_decoding_says(engine, system, sampling):
    """bf16 has near ties everywhere: equal answers mean equal bits."""
    params = SamplingParams(max_tokens=96, ignore_eos=True, **sampling)
    plain = engine.generate(PROMPT, params, system="ar", chat=True).token_ids
    assert engine.generate(PROMPT, params, system=system, chat=True).token_ids == plain


@pytest.mark.parametrize("verifier", VERIFY)
def test_no_verifier_is_left_to_torch(engine, verifier):
    params = SamplingParams(max_tokens=24, ignore_eos=True)
    engine.target._passes.clear()
    answer = engine.generate(PROMPT, params, system=f"static:4:{verifier}", chat=True)
    assert len(answer.token_ids) == 24
    assert {key[0] for key in engine.target._passes} == {verifier}
