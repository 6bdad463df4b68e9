"""Products of a few rows against float64, and their bits against themselves."""

from __future__ import annotations

import pytest
import torch
from streams import distance, normal, room

from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear import naive, norm, product
from hybridspec.kernels.linear.config import ProductConfig

# N, K: sizes that no tile divides, one tile, and the embedded pair's
SIZES = [(1, 1), (33, 70), (64, 128), (96, 320)]
TOLERANCE = 1e-6  # fp32 sums of at most 320 products, each rounded to 6e-8
EPS = 1e-6
SPLIT = ProductConfig(16, 16, split=4)


def doubles(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.double().cpu() for t in tensors]


def left_for(x: torch.Tensor, factor: torch.Tensor) -> norm.Normed:
    after = norm.Next(factor, room(x.shape[1], x.device))
    norm.prepare(x, after)
    return after.normed


@pytest.mark.parametrize("config", [None, SPLIT])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_a_product_and_its_residual(n, k, config, device):
    x, w, r = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, k), (n, k), (16, n)]))
    y, space = torch.full((16, n), float("nan"), device=device), Workspace.empty(device)
    product.product(x, w, y, workspace=space, config=config)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE
    product.product(x, w, y, residual=r, workspace=space, config=config)
    assert distance(y, naive.product(*doubles(x, w, r))) < TOLERANCE


@pytest.mark.parametrize("config", [None, SPLIT])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_a_norm_before_it(n, k, config, device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, k), (n, k), (k,)]))
    y, space = torch.full((16, n), float("nan"), device=device), Workspace.empty(device)
    product.norm_product(left_for(x, f), EPS, w, y, space, config)
    law = naive.norm_product(*doubles(x, f), EPS, *doubles(w))
    assert distance(y, law) < TOLERANCE


@pytest.mark.parametrize("config", [ProductConfig(32, 64), SPLIT])
@pytest.mark.parametrize(("n", "k"), SIZES)
def test_a_norm_after_it_takes_the_stream_as_it_is_stored(n, k, config, device):
    x, w, r, f, next_w = (
        normal(*s, seed=i).to(device)
        for i, s in enumerate([(16, k), (n, k), (16, n), (n,), (9, n)])
    )
    after = norm.Next(f, room(n, device))
    y, z = r.clone().half(), torch.empty(16, 9, device=device)
    product.product(x, w, y, y, after, Workspace.empty(device), config)
    product.norm_product(after.normed, EPS, next_w, z)
    assert distance(after.normed.squares.sum(0), y.double().square().sum(1).cpu()) < TOLERANCE
    assert distance(z, naive.norm_product(*doubles(y, f), EPS, *doubles(next_w))) < TOLERANCE


@pytest.mark.parametrize("config", [None, ProductConfig(16, 16, split=2)])
@pytest.mark.parametrize(("heads", "size", "blocks", "n"), [(3, 16, 2, 20), (8, 32, 1, 96)])
def test_gated_heads_before_it(heads, size, blocks, n, config, device):
    k = heads * size
    o, gate, f, w, r = (
        normal(*s, seed=i).to(device)
        for i, s in enumerate([(16, heads, size)] * 2 + [(size,), (n, k), (16, n)])
    )
    gated = (o * f * torch.nn.functional.silu(gate)).flatten(1).contiguous()
    squares = o.square().view(16, heads, blocks, -1).sum(-1).contiguous()
    y, space = torch.full((16, n), float("nan"), device=device), Workspace.empty(device)
    product.gated_product(
        gated, squares, EPS, w, y, r, workspace=space, config=config,
    )  # fmt: skip
    law = naive.gated_product(*doubles(o, gate, f), EPS, *doubles(w, r))
    assert distance(y, law) < TOLERANCE


@pytest.mark.parametrize(("size", "served"), [(32, True), (128, True), (8, False), (48, False)])
def test_heads_that_are_a_step(size, served):
    assert product.serves(size) is served


def test_rows_of_the_result_may_lie_apart(device):
    x, w = normal(16, 70).to(device), normal(33, 70, seed=1).to(device)
    wide = torch.full((16, 50), 7.0, device=device)
    product.product(x, w, wide[:, 3:36])
    assert distance(wide[:, 3:36], naive.product(*doubles(x, w))) < TOLERANCE
    assert (wide[:, :3] == 7).all()
    assert (wide[:, 36:] == 7).all()


@pytest.mark.parametrize("config", [None, SPLIT])
def test_a_row_s_bits_depend_on_no_other_row(config, device):
    x, w, f = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, 70), (33, 70), (70,)]))
    y, z = (torch.empty(16, 33, device=device) for _ in range(2))
    space = Workspace.empty(device)
    product.norm_product(left_for(x, f), EPS, w, y, space, config)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).to(device)
    hostile = x[order].clone()
    hostile[5], hostile[11] = float("nan"), 3e38
    product.norm_product(left_for(hostile, f), EPS, w, z, space, config)
    rest = [i for i in range(16) if i not in (5, 11)]
    assert torch.equal(z[rest], y[order][rest])


def test_half_precision_is_accumulated_in_float32(device):
    x, w = (normal(*s, seed=i).half().to(device) for i, s in enumerate([(16, 320), (32, 320)]))
    y = torch.empty(16, 32, device=device)
    product.product(x, w, y)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE


def test_a_workspace_is_ready_for_the_next_kernel(device):
    x, w, space = (
        normal(16, 70).to(device),
        normal(33, 70, seed=1).to(device),
        Workspace.empty(device),
    )
    first, second = (torch.empty(16, 33, device=device) for _ in range(2))
    product.product(x, w, first, workspace=space, config=SPLIT)
    space.parts.fill_(float("nan"))
    product.product(x, w, second, workspace=space, config=SPLIT)
    assert torch.equal(first, second)
    assert not space.arrived.any()


def test_a_workspace_that_is_too_small_is_refused(device):
    x, w, y = (torch.zeros(16, 16, device=device) for _ in range(3))
    with pytest.raises(ValueError, match="workspace of 512 parts"):
        product.product(
            x, w, y, workspace=Workspace.empty(device, 9), config=ProductConfig(16, 16, split=2)
        )


@pytest.mark.parametrize(
    "config", [ProductConfig(16, 16), ProductConfig(32, 64, 2, 2), ProductConfig(64, 16, split=16)]
)
def test_every_cut_is_right(config, device):
    """Also one with more parts than steps."""
    x, w = (normal(*s, seed=i).to(device) for i, s in enumerate([(16, 70), (33, 70)]))
    y = torch.full((16, 33), float("nan"), device=device)
    product.product(x, w, y, workspace=Workspace.empty(device), config=config)
    assert distance(y, naive.product(*doubles(x, w))) < TOLERANCE


@pytest.mark.parametrize(
    ("n", "k", "head", "expected"),
    [
        (12352, 2048, 0, ProductConfig(64, 128)),
        (2048, 4096, 128, ProductConfig(32, 128, split=4)),
        (2048, 2048, 0, ProductConfig(32, 128, split=4)),
        (248320, 2048, 0, ProductConfig(64, 128)),
        (20, 48, 16, ProductConfig(16, 16)),
    ],
)
def test_the_cut_of_known_sizes(n, k, head, expected):
    assert ProductConfig.choose(n, k, head) == expected
