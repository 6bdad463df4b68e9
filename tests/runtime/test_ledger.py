"""What a sequence's memory takes, by formula and by what is really allocated."""

from __future__ import annotations

import pytest
import torch

from builders import target_config
from hybridspec.model.config import TargetConfig
from hybridspec.runtime.state import TargetState, W

LARGE = TargetConfig(  # Qwen3.6-35B-A3B
    vocab_size=248320, hidden_size=2048,
    layer_types=(("linear_attention",) * 3 + ("full_attention",)) * 10, num_attention_heads=16,
    num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
    linear_key_head_dim=128, linear_value_head_dim=128, num_experts=256, num_experts_per_tok=8,
    moe_intermediate_size=512, shared_expert_intermediate_size=512,
)  # fmt: skip


def allocated(state: TargetState) -> int:
    """Bytes of distinct storages behind a state's tensors."""
    tensors = [*state.tensors().values(), state.raw]
    if state.alpha is not None:
        tensors.append(state.alpha)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


@pytest.mark.parametrize("joint", [False, True])
def test_the_ledger_is_what_is_allocated(joint):
    state = TargetState(target_config(), 100, slots=2, joint=joint)
    assert state.nbytes == allocated(state)
    state.verifiers.states()
    state.verifiers.ring()
    assert state.nbytes == allocated(state)


@pytest.mark.parametrize("joint", [False, True])
def test_factors_are_u_times_values_and_keys(joint):
    """A token leaves a value a value head, a key a key head (its value heads share it) and a decay;
    a state a token would be dv times dk instead."""
    state = TargetState(LARGE, 16, device="meta", dtype=torch.bfloat16, joint=joint)
    values, keys, heads, layers = 32 * 128, 16 * 128, 32, 30
    decays = state.alpha if state.alpha is not None else state.g
    factors = state.z.nbytes + state.k.nbytes + decays.nbytes
    assert factors == layers * W * (values + keys + heads) * 4
    assert factors <= 0.012e9
    assert layers * W * heads * 128 * 128 * 4 > 80 * factors


def test_kv_is_20_kib_a_token():
    one, two = (TargetState(LARGE, n, device="meta", dtype=torch.bfloat16) for n in (16, 17))
    assert two.nbytes - one.nbytes == 20480
