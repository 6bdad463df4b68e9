"""The first half of a gated MLP against float64."""

from __future__ import annotations

import pytest
import torch
from streams import distance, normal, room

from hybridspec.kernels.linear import naive, norm
from hybridspec.kernels.linear.config import ProductConfig
from hybridspec.kernels.linear.up import up_product

EPS = 1e-6
TOLERANCE = 1e-6  # fp32 sums of at most 320 products, each rounded to 6e-8


@pytest.mark.parametrize("config", [None, ProductConfig(16, 32)])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (33, 70), (40, 320)])
def test_gate_and_up_of_the_norm(n, k, config, device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, k), (2 * n, k), (k,)]))
    after, y = norm.Next(f, room(k, device)), torch.full((16, n), float("nan"), device=device)
    norm.prepare(x, after)
    up_product(after.normed, EPS, w / k**0.5, y, config)
    x, w, f = (t.double().cpu() for t in (x, w / k**0.5, f))
    assert distance(y, naive.up_product(x, f, EPS, w)) < TOLERANCE


def test_a_row_that_is_no_number_harms_no_other(device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, 64), (64, 64), (64,)]))
    results = []
    for damage in (False, True):
        after, y = norm.Next(f, room(64, device)), torch.empty(16, 32, device=device)
        if damage:
            x[3::2] = float("nan")
        norm.prepare(x, after)
        up_product(after.normed, EPS, w, y)
        results.append(y)
    whole = [i for i in range(16) if i < 3 or i % 2 == 0]
    assert torch.equal(results[0][whole], results[1][whole])
    assert results[1][3::2].isnan().all()
