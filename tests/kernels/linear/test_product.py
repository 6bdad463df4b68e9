"""Products of a few rows against float64, and their bits against themselves."""

from __future__ import annotations

import pytest
import torch

from hybridspec.kernels.linear import naive, product
from hybridspec.kernels.linear.config import ProductConfig

# N, K: sizes that no tile divides, one tile, and the embedded pair's
SIZES = [(1, 1), (33, 70), (64, 128), (96, 320)]
TOLERANCE = 1e-6  # fp32 sums of at most 320 products, each rounded to 6e-8
EPS = 1e-6


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def distance(ours: torch.Tensor, law: torch.Tensor) -> float:
    return float((ours.double().cpu() - law).norm() / law.norm())


def doubles(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.double().cpu() for t in tensors]


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_a_product_and_its_residual(n, k, device):
    x, w, r = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, k), (n, k), (16, n)]))
    y = torch.full((16, n), float("nan"), device=device)
    product.product(x, w, y)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE
    product.product(x, w, y, residual=r)
    assert distance(y, naive.product(*doubles(x, w, r))) < TOLERANCE


@pytest.mark.parametrize(("n", "k"), SIZES)
def test_a_norm_before_it(n, k, device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, k), (n, k), (k,)]))
    y = torch.full((16, n), float("nan"), device=device)
    product.norm_product(x, f, EPS, w, y)
    law = naive.norm_product(*doubles(x, f), EPS, *doubles(w))
    assert distance(y, law) < TOLERANCE


@pytest.mark.parametrize(("heads", "size", "n"), [(3, 16, 20), (8, 32, 96), (2, 1, 5)])
def test_gated_heads_before_it(heads, size, n, device):
    """The gate is a view of wider rows, as the joint projection leaves it."""
    k = heads * size
    o, wide, f, w, r = (
        normal(*s, seed=i).to(device)
        for i, s in enumerate([(16, heads, size), (16, k + 9), (size,), (n, k), (16, n)])
    )
    gate = wide[:, 4 : 4 + k]
    y = torch.full((16, n), float("nan"), device=device)
    product.gated_product(o, gate, f, EPS, w, y, r)
    gate64 = gate.double().cpu().reshape(16, heads, size)
    law = naive.gated_product(*doubles(o), gate64, *doubles(f), EPS, *doubles(w, r))
    assert distance(y, law) < TOLERANCE


def test_a_row_s_bits_depend_on_no_other_row(device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, 70), (33, 70), (70,)]))
    y, z = (torch.empty(16, 33, device=device) for _ in range(2))
    product.norm_product(x, f, EPS, w, y)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).to(device)
    hostile = x[order].clone()
    hostile[5], hostile[11] = float("nan"), 3e38
    product.norm_product(hostile, f, EPS, w, z)
    rest = [i for i in range(16) if i not in (5, 11)]
    assert torch.equal(z[rest], y[order][rest])


def test_half_precision_is_accumulated_in_float32(device):
    x, w = (normal(*s, seed=i).half().to(device) for i, s in enumerate([(16, 320), (32, 320)]))
    y = torch.empty(16, 32, device=device)
    product.product(x, w, y)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE


@pytest.mark.parametrize("config", [ProductConfig(16, 16), ProductConfig(32, 64, 2, 2)])
def test_every_cut_is_right(config, device):
    x, w = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, 70), (33, 70)]))
    y = torch.full((16, 33), float("nan"), device=device)
    product.product(x, w, y, config=config)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE


@pytest.mark.parametrize(
    ("n", "k", "head", "expected"),
    [
        (12352, 2048, 0, ProductConfig(64, 128)),
        (2048, 4096, 128, ProductConfig(16, 128)),
        (2048, 2048, 0, ProductConfig(16, 256)),
        (248320, 2048, 0, ProductConfig(64, 128)),
        (20, 48, 16, ProductConfig(16, 64)),
    ],
)
def test_the_cut_of_known_sizes(n, k, head, expected):
    assert ProductConfig.choose(n, k, head) == expected
