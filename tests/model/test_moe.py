"""The mixture of experts: both ways to run it against a loop over tokens, and what routing is."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from builders import random_target, target_config
from hybridspec.model.moe import DENSE_TOKENS, MoE

CONFIGS = {
    "base": target_config(),
    "top1": target_config(num_experts_per_tok=1, num_experts=5),
    "all": target_config(num_experts=4, num_experts_per_tok=4),
    "many": target_config(num_experts=40, num_experts_per_tok=6, moe_intermediate_size=5),
}


@pytest.fixture(scope="module", params=CONFIGS)
def moe(request):
    with torch.no_grad():
        return random_target(CONFIGS[request.param], dtype=torch.float64).layers[0].mlp


def rows(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, count, 64, generator=generator, dtype=torch.float64)


def one_by_one(moe, residual, u):
    """Each token through its own experts, from the checkpoint's tensors."""
    w, top = moe.slots(), moe.config.num_experts_per_tok
    out = residual.clone()
    for t, x in enumerate(u):
        p = (w["gate.weight"] @ x).softmax(-1)
        chosen = p.argsort(descending=True)[:top]
        for e in chosen:
            gate, up = (w["experts.gate_up_proj"][e] @ x).chunk(2)
            out[t] += p[e] / p[chosen].sum() * (w["experts.down_proj"][e] @ (F.silu(gate) * up))
        gate, up = (w[f"shared_expert.{n}_proj.weight"] @ x for n in ("gate", "up"))
        shared = w["shared_expert.down_proj.weight"] @ (F.silu(gate) * up)
        out[t] += (w["shared_expert_gate.weight"] @ x).sigmoid() * shared
    return out


@pytest.mark.parametrize("small", [True, False], ids=["dense", "grouped"])
@pytest.mark.parametrize("tokens", [1, 2, 16, DENSE_TOKENS, DENSE_TOKENS + 1])
def test_both_forms_are_the_sum_over_experts(moe, monkeypatch, tokens, small):
    monkeypatch.setattr(moe, "small", small)
    residual, u = rows(tokens)
    before = residual.clone()
    ours = moe.combine(residual, u, *moe.route(u))
    # sums of some hundred float64 products of size 1
    torch.testing.assert_close(ours, one_by_one(moe, residual, u), rtol=0, atol=1e-11)
    assert torch.equal(residual, before)


def test_routing_weights_sum_to_one(moe):
    experts, weights = moe.route(rows(9)[1])
    top = moe.config.num_experts_per_tok
    assert experts.shape == weights.shape == (9, top)
    torch.testing.assert_close(weights.sum(-1), torch.ones(9, dtype=torch.float64))
    assert all(len(set(row)) == top for row in experts.tolist())
    assert (weights.diff(dim=-1) <= 0).all()


@pytest.mark.parametrize(
    ("inner", "device", "small"), [(24, "cpu", True), (8192, "cpu", False), (24, "meta", False)]
)
def test_only_small_experts_on_a_cpu_run_as_one(inner, device, small):
    moe = MoE(target_config(moe_intermediate_size=inner), torch.device(device), torch.float32)
    moe.prepare()
    assert moe.small == small


def test_experts_nobody_chose_are_not_run(monkeypatch):
    """The grouped form touches no weights of the others: NaN there changes nothing."""
    moe = random_target(CONFIGS["many"], dtype=torch.float64).layers[0].mlp
    monkeypatch.setattr(moe, "small", False)
    residual, u = rows(2)
    experts, weights = moe.route(u)
    expected = moe.combine(residual, u, experts, weights)
    idle = sorted(set(range(40)) - set(experts.flatten().tolist()))
    assert idle
    moe.gate_up[idle] = torch.nan
    moe.down[idle] = torch.nan
    assert torch.equal(moe.combine(residual, u, experts, weights), expected)
