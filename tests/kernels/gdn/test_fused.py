"""From raw columns to gated outputs, against the model's own mixer in float64."""

from __future__ import annotations

import pytest
import torch
from fused_cases import NAN, SHAPES, Case, Written, case, finished
from gdn_forms import OUTPUTS, distance

from hybridspec.kernels.gdn import exact, fused, naive
from hybridspec.kernels.gdn.config import GDNConfig


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
        pytest.skip("the CUDA kernel does not serve these sizes")


def run(verify, c: Case, w: int, *config) -> Written:
    kernel, blocks = verify
    value_heads, dv, dk = c.state.shape
    shapes = [
        (value_heads, dv), (value_heads, blocks(dv, *config)), (value_heads, dv),
        (c.buffers.k.shape[1], dk), (value_heads,),
    ]  # fmt: skip
    dtypes = [c.raw.dtype] + [torch.float32] * 4
    made = Written(
        *(
            torch.full((16, *s), NAN, dtype=t, device=c.state.device)
            for s, t in zip(shapes, dtypes, strict=True)
        )
    )
    before = c.state.clone()
    length = torch.tensor(w, dtype=torch.int32, device=c.state.device)
    kernel(c.raw, c.gates, c.state, *made, length, *config)
    assert torch.equal(c.state, before)
    for t in made:
        assert t[w:].isnan().all()
    return Written(*(t[:w] for t in made))


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
