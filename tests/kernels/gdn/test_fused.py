"""From raw columns to gated outputs, against the model's own mixer in float64."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from gdn_forms import OUTPUTS, distance

from hybridspec.kernels.gdn import exact, fused, naive
from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import GDNBuffers, GDNMixer

NAN = float("nan")
# key heads, value heads, dk, dv: the embedded pair's head, a real model's, odd ones
SHAPES = [(2, 4, 32, 32), (1, 2, 128, 128), (3, 3, 16, 40), (2, 6, 7, 13)]


class Case(NamedTuple):
    """A float64 mixer and its buffers before a verification, and what a kernel takes of them."""

    mixer: GDNMixer
    buffers: GDNBuffers
    u: torch.Tensor
    raw: torch.Tensor
    gates: fused.Gates
    state: torch.Tensor


class Written(NamedTuple):
    """What a kernel writes."""

    gated: torch.Tensor
    squares: torch.Tensor
    z: torch.Tensor
    k: torch.Tensor
    alpha: torch.Tensor


def config(shape) -> TargetConfig:
    key_heads, value_heads, dk, dv = shape
    return TargetConfig(
        vocab_size=1, hidden_size=24, layer_types=("linear_attention",), num_attention_heads=1,
        num_key_value_heads=1, head_dim=1, linear_num_key_heads=key_heads,
        linear_num_value_heads=value_heads, linear_key_head_dim=dk, linear_value_head_dim=dv,
        num_experts=1, num_experts_per_tok=1, moe_intermediate_size=1,
        shared_expert_intermediate_size=1,
    )  # fmt: skip


def case(shape, device, seed=0, shift=0.0) -> Case:
    """shift is added to the decay's bias: alpha near 1 where it is low, near 0 where it is high."""
    sizes, g = config(shape), torch.Generator().manual_seed(seed)
    mixer = GDNMixer(sizes, torch.device("cpu"), torch.float64)
    for t in (mixer.w_in, mixer.w_conv, mixer.a_log, mixer.dt_bias, mixer.norm):
        t.copy_(torch.randn(t.shape, generator=g))
    mixer.dt_bias += shift
    mixer.prepare()
    _, value_heads, dk, dv = shape
    whole = {"generator": g, "dtype": torch.float64}
    state = torch.randn(value_heads, dv, dk, **whole) / dk**0.5
    conv, u = torch.randn(19, sizes.conv_dim, **whole), torch.randn(16, 24, **whole)
    z, k, rate = (
        torch.zeros(16, value_heads, dv),
        torch.zeros(16, shape[0], dk),
        torch.zeros(16, value_heads),
    )
    buffers = GDNBuffers(state, conv, z.double(), k.double(), rate.double())
    raw = torch.randn(19, sum(mixer.widths), generator=g)
    raw[:3, : sizes.conv_dim] = conv[:3].float()
    raw[3:] = torch.cat(mixer._project(u), -1).float()
    gates = fused.Gates(
        *(t.float().to(device) for t in (mixer.conv_weight, mixer.rate, mixer.dt_bias, mixer.norm))
    )
    return Case(mixer, buffers, u, raw.to(device), gates, state.float().to(device))


@pytest.fixture(params=["triton", "cuda"])
def verify(request, device):
    """Each implementation and the blocks of a head; CUDA C++ runs on a GPU only."""
    if request.param == "triton":
        return fused.verify, fused.blocks
    if device.type != "cuda":
        pytest.skip("CUDA C++ needs a GPU; that it compiles is tested without one")
    from hybridspec.kernels.gdn import exact_cuda

    return exact_cuda.fused, exact_cuda.blocks


def serve(verify, c: Case) -> None:
    if verify[0] is fused.verify:
        return
    from hybridspec.kernels.gdn import exact_cuda

    if not exact_cuda.serves_fused(c.state.shape[2], c.state.shape[1], c.raw.stride(0)):
        pytest.skip("the CUDA kernel is for sizes that divide by 16 bytes")


def run(verify, c: Case, w: int, *config) -> Written:
    kernel, blocks = verify
    value_heads, dv, dk = c.state.shape
    shapes = [
        (value_heads, dv), (value_heads, blocks(dv, *config)), (value_heads, dv),
        (c.buffers.k.shape[1], dk), (value_heads,),
    ]  # fmt: skip
    made = Written(*(torch.full((16, *s), NAN, device=c.state.device) for s in shapes))
    before = c.state.clone()
    length = torch.tensor(w, dtype=torch.int32, device=c.state.device)
    kernel(c.raw, c.gates, c.state, *made, length, *config)
    assert torch.equal(c.state, before)
    for t in made:
        assert t[w:].isnan().all()
    return Written(*(t[:w] for t in made))


def finished(made: Written, eps: float) -> torch.Tensor:
    """Gated outputs after their norm, as the output projection makes it."""
    scale = (made.squares.double().sum(-1) / made.gated.shape[-1] + eps).rsqrt()
    return (made.gated.double() * scale[..., None]).flatten(1).cpu()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("w", [1, 7, 16])
def test_outputs_and_factors_are_the_mixer_s(shape, w, verify, device):
    c = case(shape, device, seed=w)
    serve(verify, c)
    made = run(verify, c, w)
    expected = c.mixer.verify(c.u[:w], c.buffers, "exact")
    assert distance(finished(made, c.mixer.config.rms_norm_eps), expected) < OUTPUTS
    for ours, law in zip(made[2:], (c.buffers.z, c.buffers.k, c.buffers.g.exp()), strict=True):
        assert distance(ours.double().cpu(), law[:w]) < OUTPUTS


@pytest.mark.parametrize("shift", [-20.0, -8.0, 8.0, 60.0])
def test_extreme_gates(shift, verify, device):
    c = case(SHAPES[0], device, shift=shift)
    made = run(verify, c, 16)
    expected = c.mixer.verify(c.u, c.buffers, "exact")
    assert distance(finished(made, c.mixer.config.rms_norm_eps), expected) < OUTPUTS
    # one rounding each of a + bias and of the exponent, which the rate multiplies
    assert (made.alpha.double().cpu() - c.buffers.g.exp()).abs().max() < 1e-5


@pytest.mark.parametrize("w", [1, 2, 9, 15])
def test_a_token_s_bits_do_not_depend_on_w_nor_on_what_follows(w, verify, device):
    c = case(SHAPES[0], device, seed=1)
    whole = run(verify, c, 16)
    c.raw[3 + w :] = NAN
    for a, b in zip(whole, run(verify, c, w), strict=True):
        assert torch.equal(a[:w], b)


@pytest.mark.parametrize("m", [1, 2, 3, 16])
def test_rounds_continue_where_the_last_one_ended(m, verify, device):
    """Commit of state and columns, then the rest, has the bits of one pass."""
    if device.type == "cuda":
        from hybridspec.kernels.gdn import exact_cuda
    commit = exact.commit if verify[0] is fused.verify else exact_cuda.commit
    c = case(SHAPES[0], device, seed=2)
    whole = run(verify, c, 16)
    z, k, alpha = (t[None].contiguous() for t in whole[2:])
    state, length = c.state[None].clone(), torch.tensor(m, dtype=torch.int32, device=device)
    commit(state, z, k, alpha, length)
    columns = torch.full((2, 19, c.raw.shape[1] + 5), NAN, device=device)
    columns[:, :, : c.raw.shape[1]] = c.raw
    kept = columns.clone()
    fused.advance(columns, c.mixer.config.conv_dim, length)
    assert torch.equal(
        columns[1, :3, : c.mixer.config.conv_dim], c.raw[m : m + 3, : c.mixer.config.conv_dim]
    )
    assert torch.equal(columns[:, 3:].nan_to_num(), kept[:, 3:].nan_to_num())
    later = columns[0, :, : c.raw.shape[1]].clone()
    later[3:] = c.raw[3:].roll(-m, 0)
    if m < 16:
        rest = run(verify, c._replace(raw=later, state=state[0]), 16 - m)
        for a, b in zip(whole, rest, strict=True):
            assert torch.equal(a[m:], b)


def test_half_columns_are_rounded_where_the_model_rounds(verify, device):
    """The interpreter cuts bf16 off where a GPU rounds it, so it runs float16."""
    c = case(SHAPES[1], device, seed=3)
    c = c._replace(raw=c.raw.bfloat16() if device.type == "cuda" else c.raw.half())
    made = run(verify, c, 16)
    columns, _, b, a = c.raw.cpu().split(c.mixer.widths, -1)
    q, k, v = c.mixer._convolve(columns)
    tokens = (q, k, v, *c.mixer._gates(b[3:], a[3:]), c.state.double().cpu())
    # a convolution half way between two half numbers may go either way, one of a thousand by 2^-8
    assert distance(made.k.double().cpu(), k) < 1e-3
    assert distance(made.z.double().cpu(), naive.recurrent(*tokens)[1]) < 1e-3


@pytest.mark.parametrize("cut", [GDNConfig(8, 1), GDNConfig(16, 2)])
def test_every_cut_is_right(cut, device):
    c = case(SHAPES[2], device, seed=4)
    made = run((fused.verify, fused.blocks), c, 16, cut)
    expected = c.mixer.verify(c.u, c.buffers, "exact")
    assert distance(finished(made, c.mixer.config.rms_norm_eps), expected) < OUTPUTS
