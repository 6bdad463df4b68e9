"""Prefill on CUDA: the embedded pair's, and layers of the 35B shape in bf16, against float64.

In bf16 a result may be as far from float64's as the plain torch path is: both round projections,
convolutions and results to bf16, which no kernel can undo.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

from builders import PATTERN, fill, target_config
from hybridspec import assets
from hybridspec.checkpoint import load_target
from hybridspec.kernels import support
from hybridspec.kernels.moe import grouped
from hybridspec.model.target import Target
from hybridspec.runtime.check import distances
from hybridspec.runtime.state import TargetState

pytestmark = pytest.mark.gpu
TOKENS = 300
MORE = 1.1  # times torch's own distance: the same roundings in another order
BIG = target_config(
    vocab_size=64, hidden_size=2048, layer_types=PATTERN[2:], num_attention_heads=16,
    num_key_value_heads=2, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
    linear_key_head_dim=128, linear_value_head_dim=128, num_experts=256, num_experts_per_tok=8,
    moe_intermediate_size=512, shared_expert_intermediate_size=512,
)  # fmt: skip


def far(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


@pytest.fixture(scope="module")
def pair() -> tuple[Target, Target]:
    """One layer of each kind in bf16, and the same numbers in float64."""
    with torch.no_grad():
        half = Target(BIG, "cuda", torch.bfloat16)
        generator = torch.Generator("cuda").manual_seed(0)
        for name, weight in half.slots().items():
            weight.normal_(0.0, 0.03 if weight.ndim > 1 else 0.3, generator=generator)
            if name.endswith("linear_attn.norm.weight"):
                weight += 1
        half.prepare()
        exact = Target(BIG, "cuda", torch.float64)
        for name, slot in exact.slots().items():
            slot.copy_(half.slots()[name])
        exact.prepare()
        for target in (half, exact):
            target.set_context(TOKENS)
    return half, exact


def rows() -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(TOKENS, 2048, generator=generator).bfloat16().cuda()


def slot(target: Target):
    return TargetState(target.config, TOKENS, device="cuda", dtype=target.dtype).slot()


@pytest.mark.parametrize("cuts", [(), (64, 129), (200,)])
def test_gdn_of_the_35b_shape(pair, cuts, monkeypatch):
    half, exact = (target.layers[0].gdn for target in pair)
    u, results = rows(), []
    for chunked in (True, False):
        monkeypatch.setattr(half, "chunked", chunked)
        ours = slot(pair[0])
        parts = [half.prefill(p, ours.layer(0)) for p in torch.tensor_split(u, cuts)]
        results.append((torch.cat(parts), ours.gdn))
    expected = slot(pair[1])
    o = exact.prefill(u.double(), expected.layer(0))
    (kernels, state), (torch_s, torch_state) = results
    assert far(kernels, o) < MORE * far(torch_s, o)
    assert far(state, expected.gdn) < MORE * far(torch_state, expected.gdn)
    assert far(torch_s, o) < 0.02  # a few roundings to bf16


@pytest.mark.parametrize("library", [True, False], ids=["torch", "triton"])
def test_experts_of_the_35b_shape(pair, library, monkeypatch):
    half, exact = (target.layers[0].mlp for target in pair)
    assert half.sorts
    u, residual = rows(), rows().flip(0)
    experts, weights = exact.route(u.double())
    expected = exact.combine(residual.double(), u.double(), experts, weights)
    monkeypatch.setattr(grouped, "uses_library", lambda gate_up: library)
    ours = half.combine(residual, u, experts, weights.float())
    again = half.combine(residual, u, experts, weights.float())
    monkeypatch.setattr(half, "sorts", False)
    plain = half.combine(residual, u, experts, weights.float())
    assert far(ours, expected) < MORE * far(plain, expected)
    assert torch.equal(ours, again)


@pytest.mark.parametrize("cuts", [(), (200,), (17, 100)])
def test_attention_of_the_35b_shape(pair, cuts, monkeypatch):
    u, results = rows(), []
    for target in pair:
        layer, state = target.layers[1].attention, slot(target)
        start, parts = 0, []
        for part in torch.tensor_split(u.to(target.dtype), cuts):
            parts.append(layer(part, state.keys[0], state.values[0], start, target.rope))
            start += len(part)
        results.append(torch.cat(parts))
    monkeypatch.setattr("hybridspec.model.attention.flashes", lambda q, k, v: False)
    state = slot(pair[0])
    plain = pair[0].layers[1].attention(u, state.keys[0], state.values[0], 0, pair[0].rope)
    assert far(results[0], results[1]) < MORE * far(plain, results[1])


def test_the_embedded_pair_s_prefill_is_the_law_s():
    """float32 by kernels against float64 on the CPU: some hundred fp32 sums a layer."""
    ids = torch.arange(5, 5 + TOKENS) * 7 % 1000
    ours = load_target(assets.TARGET, torch.device("cuda"), torch.float32)
    law = load_target(assets.TARGET, torch.device("cpu"), torch.float64)
    assert ours.layers[0].gdn.chunked
    assert ours.layers[0].mlp.sorts
    found = []
    for target in (ours, law):
        target.set_context(TOKENS)
        state = TargetState(target.config, TOKENS, device=target.device, dtype=target.dtype).slot()
        logits = [target.prefill(part, state).logits for part in ids.to(target.device).split(200)]
        found.append((state, logits[-1].cpu()))
    assert far(found[0][1], found[1][1]) < 1e-4
    on_cpu = TargetState(ours.config, TOKENS, dtype=torch.float64).slot()
    on_cpu.length = TOKENS
    for name in ("checkpoint", "conv", "keys", "values"):
        getattr(on_cpu, name).copy_(getattr(found[0][0], name))
    apart = distances(on_cpu, found[1][0])
    assert max(apart.values()) < 1e-4, apart


def test_heads_without_kernels_take_plain_torch():
    """The small models of other tests have heads of 16: nothing breaks, and it is said."""
    config = dataclasses.replace(target_config(), layer_types=("linear_attention",))
    target = Target(config, "cuda", torch.float32)
    fill(target, 0)
    assert not target.layers[0].gdn.chunked
    assert any("16 x 16" in reason for reason in support.said())
