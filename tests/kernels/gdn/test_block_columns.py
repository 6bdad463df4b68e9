"""The block form from raw columns, against the model's own mixer in float64."""

from __future__ import annotations

import pytest
import torch
from fused_cases import NAN, SHAPES, Case, Written, case, finished
from gdn_forms import OUTPUTS, distance

from hybridspec.kernels.gdn import block, fused
from hybridspec.kernels.gdn.columns import Spread


def run(c: Case, w: int) -> tuple[Written, torch.Tensor]:
    """What is written in rows 0..w-1, the others left alone, and g beside it."""
    heads, dv, dk = c.state.shape
    key_heads, device = c.buffers.k.shape[1], c.state.device
    room = Spread(*(t.fill_(NAN) for t in Spread.empty(key_heads, heads, dk, dv, device)))
    shapes = (heads, dv), (heads, fused.blocks(dv)), (heads, dv), (key_heads, dk), (heads,)
    made = Written(*(torch.full((16, *s), NAN, device=device) for s in shapes))
    made = made._replace(gated=made.gated.to(c.raw.dtype))
    g, before = torch.full_like(made.alpha, NAN), c.state.clone()
    length = torch.tensor(w, dtype=torch.int32, device=device)
    block.fused(c.raw, c.gates, c.state, *made[:4], g, made.alpha, length, room)
    assert torch.equal(c.state, before)
    for t in (*made, g, *room):
        assert t[w:].isnan().all()
        assert t[:w].isfinite().all()
    return Written(*(t[:w] for t in made)), g[:w]


def check(c: Case, w: int) -> None:
    made, g = run(c, w)
    expected = c.mixer.verify(c.u[:w], c.buffers, "exact")
    assert distance(finished(made, c.mixer.config.rms_norm_eps), expected) < OUTPUTS
    for ours, law in zip((made.z, made.k, g), c.buffers[2:5], strict=True):
        assert distance(ours.double().cpu(), law[:w]) < OUTPUTS
    # one rounding of the exponent, which may be as large as the rate times some tens
    assert (made.alpha.double().cpu() - c.buffers.g[:w].exp()).abs().max() < 1e-5


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("w", [1, 7, 16])
def test_outputs_and_factors_are_the_mixer_s(shape, w, device):
    check(case(shape, device, seed=w), w)


@pytest.mark.parametrize("shift", [-20.0, 8.0, 60.0])
def test_extreme_gates(shift, device):
    check(case(SHAPES[0], device, shift=shift), 16)


def test_rows_beyond_the_length_do_no_harm(device):
    c = case(SHAPES[0], device, seed=1)
    whole, _ = run(c, 5)
    c.raw[3 + 5 :] = NAN
    for a, b in zip(whole, run(c, 5)[0], strict=True):
        assert torch.equal(a, b)


def test_half_columns_are_rounded_where_exact_rounds_them(device):
    """The interpreter cuts bf16 off where a GPU rounds it, so it runs float16."""
    c = case(SHAPES[0], device, seed=3)
    c = c._replace(raw=c.raw.bfloat16() if device.type == "cuda" else c.raw.half())
    made, _ = run(c, 16)
    shapes = [t.shape[1:] for t in made]
    dtypes = [c.raw.dtype] + [torch.float32] * 4
    exact = Written(
        *(torch.zeros(16, *s, dtype=t, device=device) for s, t in zip(shapes, dtypes, strict=True))
    )
    length = torch.tensor(16, dtype=torch.int32, device=device)
    fused.verify(c.raw, c.gates, c.state, *exact, length)
    assert torch.equal(made.alpha, exact.alpha)
    # sums of squares in another order; a key is rounded before it is divided by its length
    assert distance(made.k.double().cpu(), exact.k.double().cpu()) < 1e-6
    assert distance(made.z.double().cpu(), exact.z.double().cpu()) < OUTPUTS
    # outputs are rounded to half numbers, some of them the other way
    assert distance(made.gated.double().cpu(), exact.gated.double().cpu()) < 1e-3
