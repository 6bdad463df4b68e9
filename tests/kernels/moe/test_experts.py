"""The expert kernels against float64, and their bits against themselves."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from hybridspec.kernels.linear import product
from hybridspec.kernels.moe import experts, naive
from hybridspec.kernels.moe.config import ExpertConfig

EPS = 1e-6
TOLERANCE = 2e-6  # fp32: sums of some hundred products, each rounded to 6e-8


class Size(NamedTuple):
    hidden: int
    count: int
    top: int
    width: int
    shared: int


# sizes that no tile divides; the embedded pair's; fewer experts than tokens could choose
SIZES = [Size(20, 9, 3, 5, 7), Size(320, 32, 4, 16, 192), Size(48, 5, 2, 40, 16)]


def weights(size: Size, device, seed=0) -> naive.Weights:
    g = torch.Generator().manual_seed(seed)
    k, e, _, i, s = size
    shapes = [(k,), (e, k), (e, 2 * i, k), (e, k, i), (2 * s, k), (k, s), (k,)]
    made = [torch.randn(*shape, generator=g) / shape[-1] ** 0.5 for shape in shapes]
    made[0] = 1 + made[0]
    return naive.Weights(*(t.to(device) for t in made))


def tokens(size: Size, device, seed=1) -> torch.Tensor:
    return torch.randn(16, size.hidden, generator=torch.Generator().manual_seed(seed)).to(device)


def run(x, w, size, length, device, cuts=(None, None)):
    """The block's result and its routing; workspaces are NaN where nothing is written."""
    nan = float("nan")
    routed = experts.Routed.empty(size.count, size.top, device)
    routed.weights.fill_(nan)
    routed.distinct.fill_(-1)
    h = torch.full((len(routed.distinct), 16, size.width), nan, device=device)
    shared_h, y = torch.full((16, size.shared), nan, device=device), torch.full_like(x, nan)
    logits = torch.empty(16, size.count, device=device)
    product.norm_product(x, w.factor, EPS, w.router, logits)
    experts.route(logits, torch.tensor(length, dtype=torch.int32, device=device), routed)
    experts.up(x, w, EPS, routed, h, shared_h, cuts[0])
    experts.down(h, shared_h, w, routed, x, y, cuts[1])
    return y, routed, logits


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [1, 5, 16])
def test_a_block_is_the_law_s(size, length, device):
    w, x = weights(size, device), tokens(size, device)
    y, _, _ = run(x, w, size, length, device)
    exact = naive.Weights(*(t.double().cpu() for t in w))
    law = naive.block(x[:length].double().cpu(), exact, size.top, EPS)
    assert float((y[:length].double().cpu() - law).norm() / law.norm()) < TOLERANCE


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [1, 2, 9, 16])
def test_the_list_holds_each_expert_once_in_ascending_order(size, length, device):
    w, x = weights(size, device), tokens(size, device, seed=length)
    _, routed, logits = run(x, w, size, length, device)
    ids, shares = naive.route(logits[:length], size.top)
    assert torch.equal(routed.ids[:length].long(), ids)
    count = int(routed.count)
    assert routed.distinct[:count].tolist() == sorted(set(ids.flatten().tolist()))
    dense = torch.zeros(length, size.count, device=device).scatter_(1, ids, shares)
    listed = dense[:, routed.distinct[:count].long()].T
    assert torch.allclose(routed.weights[:count, :length], listed, rtol=1e-6)  # fp32 roundings
    assert (routed.weights[:count, length:] == 0).all()


def test_ties_go_to_the_lowest_expert(device):
    routed = experts.Routed.empty(9, 3, device)
    logits = torch.zeros(16, 9, device=device)
    logits[1, 4] = 1.0
    experts.route(logits, torch.tensor(2, dtype=torch.int32, device=device), routed)
    assert routed.ids[0].tolist() == [0, 1, 2]
    assert routed.ids[1].tolist() == [4, 0, 1]


def test_a_token_s_bits_depend_neither_on_the_length_nor_on_others(device):
    size = SIZES[0]
    w, x = weights(size, device), tokens(size, device)
    alone, _, _ = run(x, w, size, 1, device)
    among, _, _ = run(x, w, size, 16, device)
    assert torch.equal(alone[0], among[0])
    hostile = x.clone()
    hostile[1:] = 3e38
    hostile[7] = float("nan")
    beside, _, _ = run(hostile, w, size, 1, device)
    assert torch.equal(alone[0], beside[0])


@pytest.mark.parametrize("cut", [ExpertConfig(16, 16), ExpertConfig(32, 64, 2, 2)])
def test_every_cut_is_right(cut, device):
    size = SIZES[0]
    w, x = weights(size, device), tokens(size, device)
    ours, _, _ = run(x, w, size, 16, device, (cut, cut))
    law = naive.block(x.double().cpu(), naive.Weights(*(t.double().cpu() for t in w)), 3, EPS)
    assert float((ours.double().cpu() - law).norm() / law.norm()) < TOLERANCE
