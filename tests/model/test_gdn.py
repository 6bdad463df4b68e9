"""The GDN mixer around the kernel: convolution, normalisation and gates, written out."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from builders import random_target, target_config
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import TargetState

BASE = target_config(layer_types=("linear_attention",))
CONFIGS = {
    "base": BASE,
    "one_key_head": dataclasses.replace(BASE, linear_num_key_heads=1),
    "odd": dataclasses.replace(BASE, linear_key_head_dim=6, linear_value_head_dim=10),
    "two_taps": dataclasses.replace(BASE, linear_conv_kernel_dim=2),
}


@pytest.fixture(scope="module", params=CONFIGS)
def mixer(request):
    with torch.no_grad():
        return random_target(CONFIGS[request.param], dtype=torch.float64).layers[0].gdn


def written_out(mixer, u):
    """The whole sequence at once, from the checkpoint's tensors: [T, VH * dv]."""
    c, w = mixer.config, mixer.slots()
    heads, kh, dk = c.linear_num_value_heads, c.linear_num_key_heads, c.linear_key_head_dim
    raw = u @ w["in_proj_qkv.weight"].T
    y = F.silu(F.conv1d(F.pad(raw.T, (mixer.taps - 1, 0)), w["conv1d.weight"], groups=c.conv_dim).T)
    q, k, v = y.split([c.key_dim, c.key_dim, c.value_dim], -1)
    q, k = (x.view(-1, kh, dk) for x in (q, k))
    q, k = (x * (x.pow(2).sum(-1, keepdim=True) + 1e-6).rsqrt() for x in (q, k))
    q, k = (x.repeat_interleave(heads // kh, 1) for x in (q * dk**-0.5, k))
    v = v.reshape(-1, heads, c.linear_value_head_dim)
    beta = (u @ w["in_proj_b.weight"].T).sigmoid()
    g = -w["A_log"].exp() * F.softplus(u @ w["in_proj_a.weight"].T + w["dt_bias"])
    state, o = torch.zeros(heads, v.shape[-1], dk, dtype=u.dtype), torch.empty_like(v)
    for t in range(len(u)):
        state = state * g[t].exp()[:, None, None]
        z = beta[t, :, None] * (v[t] - torch.einsum("hvk,hk->hv", state, k[t]))
        state = state + torch.einsum("hv,hk->hvk", z, k[t])
        o[t] = torch.einsum("hvk,hk->hv", state, q[t])
    normed = F.rms_norm(o, o.shape[-1:], w["norm.weight"], c.rms_norm_eps)
    return (normed * F.silu(u @ w["in_proj_z.weight"].T).view_as(o)).flatten(1), state, raw


def tokens(count):
    generator = torch.Generator().manual_seed(count)
    return torch.randn(count, 64, generator=generator, dtype=torch.float64)


CLOSE = {"rtol": 0, "atol": 1e-11}  # float64 sums of some dozen terms, over at most 90 tokens


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (63,), (64,), (10, 11, 12)])
def test_prefill(mixer, cuts):
    u = tokens(90)
    expected, state, raw = written_out(mixer, u)
    slot = TargetState(mixer.config, 100, dtype=torch.float64).slot()
    parts = [mixer.prefill(part, slot.layer(0)) for part in torch.tensor_split(u, cuts)]
    torch.testing.assert_close(torch.cat(parts), expected, **CLOSE)
    torch.testing.assert_close(slot.gdn[0], state, **CLOSE)
    history = mixer.taps - 1
    torch.testing.assert_close(slot.conv[0, :history], raw[-history:], **CLOSE)


@pytest.mark.parametrize("form", VERIFY)
@pytest.mark.parametrize(
    "rounds",
    [[(16, 16)] * 3, [(1, 1)] * 40, [(9, 1), (4, 3), (16, 11), (2, 2)], [(16, 1)] * 20],
)
def test_rounds(mixer, form, rounds):
    """Verify w, keep m, after a prompt of one token: shorter than the convolution."""
    follow(mixer, form, rounds)


@pytest.mark.parametrize("form", VERIFY)
def test_two_rounds_that_keep_all_and_half_in_both_orders(mixer, form):
    for w in range(1, 17):
        half = (w + 1) // 2
        follow(mixer, form, [(w, w), (w, half)])
        follow(mixer, form, [(w, half), (w, w)])


def follow(mixer, form, rounds):
    """Rows of every verification and states after every commit, against the whole sequence."""
    u = tokens(1 + sum(m for _, m in rounds) + 16)
    expected, _, _ = written_out(mixer, u)
    slot = TargetState(mixer.config, len(u), dtype=torch.float64).slot()
    mixer.prefill(u[:1], slot.layer(0))
    at = 1
    for w, m in rounds:
        rows = mixer.verify(u[at : at + w], slot.layer(0, form), form)
        torch.testing.assert_close(rows, expected[at : at + w], **CLOSE)
        slot.commit(m, form)
        at += m
    torch.testing.assert_close(slot.gdn[0], written_out(mixer, u[:at])[1], **CLOSE)


def test_a_repeated_token_of_zeros_is_harmless(mixer):
    """q and k of length zero are divided by the root of eps, not by zero."""
    slot = TargetState(mixer.config, 40, dtype=torch.float64).slot()
    for form in VERIFY:
        rows = mixer.verify(torch.zeros(5, 64, dtype=torch.float64), slot.layer(0, form), form)
        assert rows.isfinite().all()
