"""Norms and dtypes."""

from __future__ import annotations

import pytest
import torch

from builders import random_target, target_config
from hybridspec.model.layers import RMSNorm, add_product, product, weight, wide
from hybridspec.runtime.state import TargetState


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e6, 1e18])
def test_the_norm(scale):
    """Also at 0, where eps alone divides, and where squares would overflow float32."""
    x = torch.randn(5, 3, 24, generator=torch.Generator().manual_seed(0)) * scale
    factor = torch.linspace(-1, 2, 24)
    exact = x.double() / (x.double().pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * factor
    ours = RMSNorm(factor, 24, 1e-6)(x)
    torch.testing.assert_close(ours.double(), exact, rtol=1e-6, atol=1e-12)  # float32 roundings


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_the_norm_is_wide_inside_and_narrow_outside(dtype):
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = RMSNorm(torch.ones(32, dtype=wide(dtype)), 32, 1e-6)(x)
    exact = torch.nn.functional.rms_norm(x.double(), (32,), eps=1e-6)
    assert y.dtype == dtype
    torch.testing.assert_close(y, exact.to(dtype))


def test_the_input_stays():
    x = torch.ones(2, 4)
    RMSNorm(torch.full((4,), 3.0), 4, 1e-6)(x)
    assert torch.equal(x, torch.ones(2, 4))


@pytest.mark.parametrize("shape", [(6, 4), (3, 6, 4)])
def test_weights_have_their_shape_whatever_their_layout(shape):
    made = weight(*shape, device=torch.device("cpu"), dtype=torch.float32)
    assert made.shape == shape
    assert made.transpose(-1, -2).is_contiguous()
    assert weight(*shape, device=torch.device("meta"), dtype=torch.float32).shape == shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_narrow_model_follows_the_wide_one(dtype):
    """The same weights in 16 bits: logits agree to about the type's precision."""
    config, ids = (
        target_config(layer_types=("linear_attention", "full_attention")),
        torch.arange(30),
    )
    wide_logits, narrow = (
        random_target(config, dtype=d).prefill(ids, TargetState(config, 40, dtype=d).slot()).logits
        for d in (torch.float64, dtype)
    )
    assert narrow.dtype == torch.float32
    distance = (narrow.double() - wide_logits).norm() / wide_logits.norm()
    assert distance < 0.05  # bfloat16 rounds by 0.4% a step; a wrong sum is off by more than half


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("out", "inner"), [(784, 320), (320, 192)])
def test_a_row_s_bits_do_not_depend_on_how_many_there_are(dtype, out, inner):
    """On any processor, at the embedded pair's sizes: some numbers of rows are run as more."""
    g = torch.Generator().manual_seed(1)
    x, r = (torch.randn(16, n, generator=g).to(dtype) for n in (inner, out))
    w = weight(out, inner, device=torch.device("cpu"), dtype=dtype)
    w.copy_(torch.randn(out, inner, generator=g))
    whole, added = product(x, w), add_product(r, x, w)
    for rows in range(1, 17):
        assert torch.equal(product(x[:rows], w), whole[:rows]), rows
        assert torch.equal(add_product(r[:rows], x[:rows], w), added[:rows]), rows
