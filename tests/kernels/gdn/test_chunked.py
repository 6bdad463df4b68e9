"""A prefill in chunks against the float64 law, and what stands before and behind it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from gdn_forms import OUTPUTS, STATES, distance, inputs

from builders import random_target, target_config
from hybridspec.kernels.gdn import chunked, ends, naive
from hybridspec.kernels.gdn.config import ChunkConfig
from hybridspec.runtime.state import TargetState

SHAPE = (1, 2, 32, 32)  # key heads, value heads, dk, dv
LENGTHS = (1, 17, 63, 64, 65, 130)


def on(device, tokens, **kwargs):
    x = inputs(tokens, kwargs.pop("shape", SHAPE), **kwargs)
    return type(x)(*(t.contiguous().to(device) for t in x))


def check(x, *config, most=1.0):
    """`most`: how many times the usual rounding is allowed."""
    state = x.state.clone()
    o = chunked.prefill(*x[:5], state, *config)
    exact_o, exact_state = naive.prefill(*(t.double().cpu() for t in x))
    assert distance(o.double().cpu(), exact_o) < most * OUTPUTS
    assert distance(state.double().cpu(), exact_state) < most * STATES
    return o, state


@pytest.mark.parametrize("tokens", LENGTHS)
def test_every_length_is_the_law_s(tokens, device):
    check(on(device, tokens, seed=tokens))


@pytest.mark.parametrize("shape", [(2, 2, 32, 32), (1, 4, 32, 32), (1, 1, 32, 64), (1, 1, 64, 32)])
def test_sizes(shape, device):
    check(on(device, 70, shape=shape, seed=1))


def test_a_prompt_in_pieces_goes_on_from_the_state(device):
    x = on(device, 130, seed=2)
    whole, last = check(x)
    state = x.state.clone()
    parts = [chunked.prefill(*x.rows(a, b), state) for a, b in ((0, 33), (33, 97), (97, 130))]
    assert distance(torch.cat(parts), whole) < OUTPUTS
    assert distance(state, last) < STATES


def test_pieces_that_end_with_chunks_change_no_bit(device):
    x = on(device, 130, seed=3)
    whole, last = check(x)
    state = x.state.clone()
    parts = [chunked.prefill(*x.rows(a, b), state) for a, b in ((0, 64), (64, 128), (128, 130))]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(state, last)


@pytest.mark.parametrize("g", [0.0, -1e-7, -30.0, -300.0, -1e4])
def test_extreme_decay(g, device):
    check(on(device, 70, g=g))


@pytest.mark.parametrize("g", [-30.0, -300.0, -1e4])
def test_a_strong_decay_among_weak_ones(g, device):
    x = on(device, 70)
    strong = torch.rand(x.g.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    check(x._replace(g=torch.where(strong.to(device), g, -0.01)))


@pytest.mark.parametrize(("g", "beta"), [(0.0, 1.0), (-1e4, 1.0), (-0.01, 0.9)])
def test_one_key_for_ever(g, beta, device):
    """The inverse is tame here and the powers of what it inverts are not; what is left of z after
    the subtraction is small, so the usual rounding weighs more."""
    check(on(device, 70, g=g, beta=beta, one_key=True), most=10)


@pytest.mark.parametrize(
    "config", [ChunkConfig(16, 16, "tf32x3"), ChunkConfig(32, 32, "ieee", 2, 1, 4)]
)
def test_every_cut_is_right(config, device):
    check(on(device, 70, seed=4), config)


def test_what_is_not_served_is_said():
    assert chunked.refusal((16, 32, 128, 128), torch.bfloat16) is None
    assert "float64" in chunked.refusal((16, 32, 128, 128), torch.float64)
    assert "6 x 32" in chunked.refusal((2, 4, 6, 32), torch.float32)
    assert "32 x 256" in chunked.refusal((2, 4, 32, 256), torch.float32)


HEADS = ends.Heads(1, 2, 16, 32)


@pytest.mark.parametrize("tokens", [1, 2, 3, 16, 37])
@pytest.mark.parametrize("taps", [2, 4])
def test_convolution(tokens, taps, device):
    """Rows of joint columns apart, as the projection and a GPU's memory leave them."""
    generator = torch.Generator().manual_seed(tokens)
    c = 2 * HEADS.keys * HEADS.dk + HEADS.values * HEADS.dv
    joint = torch.randn(tokens, c + 5, generator=generator)
    history = torch.randn(taps - 1, c + 3, generator=generator)[:, :c]
    weights = torch.randn(taps, c, generator=generator)
    q, k, v = ends.convolve(
        joint.to(device)[:, :c], history.to(device), weights.to(device), HEADS, 1e-6
    )
    window = torch.cat((history, joint[:, :c])).double()
    y = F.silu(F.conv1d(window.t()[None], weights.t()[:, None].double(), groups=c)[0].t())
    exact_q, exact_k, exact_v = y.split((16, 16, 64), -1)
    length = (exact_q.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    assert distance(q.flatten(1).double().cpu(), exact_q / length / 4) < OUTPUTS
    length = (exact_k.square().sum(-1, keepdim=True) + 1e-6).sqrt()
    assert distance(k.flatten(1).double().cpu(), exact_k / length) < OUTPUTS
    assert distance(v.flatten(1).double().cpu(), exact_v) < OUTPUTS


def test_norm_and_gate(device):
    generator = torch.Generator().manual_seed(0)
    o, joint = torch.randn(37, 2, 32, generator=generator), torch.randn(37, 90, generator=generator)
    factor = torch.randn(32, generator=generator)
    gate = joint.to(device)[:, 8:72]
    y = ends.finish(o.to(device), gate, factor.to(device), 1e-6)
    exact = F.rms_norm(o.double(), (32,), factor.double(), 1e-6)
    exact = exact.flatten(1) * F.silu(joint[:, 8:72].double())
    assert distance(y.double().cpu(), exact) < OUTPUTS


@pytest.mark.parametrize("cuts", [(), (1, 3), (70,)])
def test_the_mixer_s_prefill_by_kernels(cuts):
    """As a GPU runs it, in its memory, interpreted: outputs, state and history of the plain path in
    float64."""
    if torch.cuda.is_available():
        pytest.skip("tests/gpu runs it there")
    config = target_config(
        layer_types=("linear_attention",), linear_key_head_dim=32, linear_value_head_dim=64
    )
    u = torch.randn(90, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours, exact = (random_target(config, dtype=d).layers[0].gdn for d in (torch.float32, u.dtype))
    slot, expected = (
        TargetState(config, 100, dtype=d, joint=d == torch.float32).slot()
        for d in (torch.float32, torch.float64)
    )
    parts = [
        ours._prefill_chunked(part.float(), slot.layer(0)) for part in torch.tensor_split(u, cuts)
    ]
    assert distance(torch.cat(parts).double(), exact.prefill(u, expected.layer(0))) < 3 * OUTPUTS
    assert distance(slot.gdn.double(), expected.gdn) < OUTPUTS  # fp32 products before it
    assert distance(slot.conv.double(), expected.conv) < OUTPUTS
