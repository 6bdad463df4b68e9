"""One number at a time, against torch and Python: order, mass, uniform numbers, rounding."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from hybridspec.core import SamplingParams
from hybridspec.kernels.sampling.naive import ERROR
from hybridspec.kernels.sampling.numbers import at_least, mass, order, ordered, uniform
from hybridspec.runtime import philox
from hybridspec.runtime.sampling import weights


@triton.jit
def _orders(x, keys, back, N: tl.constexpr):
    i = tl.arange(0, N)
    key = order(tl.load(x + i))
    tl.store(keys + i, key)
    tl.store(back + i, ordered(key))


@triton.jit
def _masses(x, peak, temperature, out, SHIFT: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, mass(tl.load(x + i), tl.load(peak), tl.load(temperature), SHIFT))


@triton.jit
def _uniforms(seed, positions, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, uniform(tl.load(seed), tl.load(positions + i)))


@triton.jit
def _at_leasts(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, at_least(tl.load(x + i)))


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_orders_are_those_of_the_numbers(device):
    odd = torch.tensor([0.0, -0.0, math.inf, -math.inf, 1e-45, -1e-45, 3.4e38, -3.4e38])
    bits = torch.randint(-(2**31), 2**31, (4088,), generator=generator()).int().view(torch.float32)
    x = torch.cat([odd, bits.nan_to_num()]).to(device)
    keys, back = torch.empty(4096, dtype=torch.int64, device=device), torch.empty_like(x)
    _orders[(1,)](x, keys, back, 4096)
    assert int(keys.min()) >= 0
    assert int(keys.max()) < 2**32
    sorted_x, by = x.sort()
    gaps = keys[by].diff()
    assert torch.equal(gaps > 0, sorted_x[1:] > sorted_x[:-1])
    assert torch.equal(gaps == 0, sorted_x[1:] == sorted_x[:-1])
    assert torch.equal(back, x)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1e-30, 100.0])
@pytest.mark.parametrize("vocabulary", [4096, 248_320])
def test_masses_are_those_of_the_law(temperature, vocabulary, device):
    """Also far below the peak, where an error of the exponent would show."""
    x = torch.rand(1, 4096, generator=generator()) * 60 - 35
    x[0, 1], x[0, 2], x[0, 3] = -math.inf, -3e38, 25.0
    padding = torch.full((1, vocabulary - 4096), -math.inf)
    law = weights(torch.cat([x, padding], 1), SamplingParams(temperature=temperature))[0, :4096]
    out, given = torch.empty(4096, device=device), torch.tensor([temperature], device=device)
    shift = 62 - vocabulary.bit_length()
    _masses[(1,)](x.to(device), x.max().to(device), given, out, shift, 4096, enable_fp_fusion=False)
    assert float(out.max()) == 2.0**shift
    assert torch.equal(out, out.floor())
    assert ((out.cpu().double() - law.double()).abs() <= law.double() * ERROR + 1).all()


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 12345, 2**64 - 1])
def test_uniform_numbers_have_the_law_s_bits(seed, device):
    positions = torch.randint(0, 2**62, (4096,), generator=generator())
    positions[:1024] = torch.arange(1024) + 2**32 - 512
    out = torch.empty(4096, dtype=torch.float64, device=device)
    held = torch.tensor(seed - 2**64 if seed >= 2**63 else seed, device=device)
    _uniforms[(1,)](held, positions.to(device), out, 4096)
    assert torch.equal(out.cpu(), philox.uniform(seed, positions))


def test_the_least_integer_that_rounds_to_a_bound(device):
    exponents = torch.randint(-3, 61, (4096,), generator=generator())
    x = (1 + torch.rand(4096, generator=generator(1), dtype=torch.float64)) * 2.0**exponents
    x[:60] = 2.0 ** torch.arange(60)
    x[60:120] = 2.0 ** torch.arange(60) + 1
    x[120:123] = torch.tensor([0.0, 1e-300, 0.5])
    out = torch.empty(4096, dtype=torch.int64, device=device)
    _at_leasts[(1,)](x.to(device), out, 4096)
    for bound, n in zip(x.tolist(), out.tolist(), strict=True):
        assert float(n) >= bound
        assert n == 1 or float(n - 1) < bound
