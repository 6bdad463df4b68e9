"""The expert kernels against float64, and their bits against themselves."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch

from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear import naive as linear
from hybridspec.kernels.linear.config import ProductConfig
from hybridspec.kernels.linear.norm import Next, Normed, prepare
from hybridspec.kernels.moe import experts, naive
from hybridspec.kernels.moe.config import ExpertConfig
from hybridspec.kernels.moe.route import Routed, choose, route

EPS = 1e-6
TOLERANCE = 2e-6  # fp32: sums of some hundred products, each rounded to 6e-8
NAN = float("nan")


class Size(NamedTuple):
    hidden: int
    count: int
    top: int
    width: int
    shared: int


# sizes that no tile divides; the embedded pair's; fewer experts than tokens could choose; many
SIZES = [Size(20, 9, 3, 5, 7), Size(320, 32, 4, 16, 192), Size(48, 5, 2, 40, 16)]
ROUTERS = [*SIZES, Size(33, 200, 8, 1, 1), Size(16, 256, 8, 1, 1)]


class Case(NamedTuple):
    w: naive.Weights
    factor: torch.Tensor
    x: torch.Tensor


class Cuts(NamedTuple):
    router: ProductConfig | None = None
    up: ExpertConfig | None = None
    down: ExpertConfig | None = None


class Outcome(NamedTuple):
    y: torch.Tensor
    routed: Routed
    after: Next


def case(size: Size, device, seed=0) -> Case:
    g = torch.Generator().manual_seed(seed)
    k, e, _, i, s = size
    shapes = [(e + 1, k), (e, 2 * i, k), (e, k, i), (2 * s, k), (k, s)]
    w = naive.Weights(
        *((torch.randn(*shape, generator=g) / shape[-1] ** 0.5).to(device) for shape in shapes)
    )
    factor, x = 1 + 0.5 * torch.randn(k, generator=g), torch.randn(16, k, generator=g)
    return Case(w, factor.to(device), x.to(device))


def left(x: torch.Tensor, factor: torch.Tensor) -> Next:
    after = Next(factor, Normed.empty(x.shape[1], torch.float32, x.device))
    prepare(x, after)
    return after


def routed_for(size: Size, device) -> Routed:
    """NaN or nonsense where nothing is written."""
    routed = Routed.empty(size.count, size.top, device)
    for t in routed:
        t.fill_(NAN if t.is_floating_point() else size.count - 1)
    return routed


def run(c: Case, size: Size, length: int, cuts: Cuts | None = None) -> Outcome:
    """The block; workspaces are NaN where nothing is written."""
    cuts, device = cuts or Cuts(), c.x.device
    routed, space = routed_for(size, device), Workspace.empty(device)
    space.parts.fill_(NAN)
    h = torch.full((routed.places, 16, size.width), NAN, device=device)
    shared_h, y = torch.full((16, size.shared), NAN, device=device), torch.full_like(c.x, NAN)
    normed = left(c.x, c.factor).normed
    after = Next(c.factor, Normed(*(torch.full_like(t, NAN) for t in normed)))
    scalar = torch.tensor(length, dtype=torch.int32, device=device)
    route(normed, EPS, c.w.router, scalar, routed, space, cuts.router)
    experts.up(normed, EPS, c.w, routed, h, shared_h, cuts.up)
    space.parts.fill_(NAN)
    experts.down(h, shared_h, c.w, routed, c.x, y, space, after, cuts.down)
    assert not space.arrived.any()
    return Outcome(y, routed, after)


def law(c: Case, size: Size, length: int) -> torch.Tensor:
    w = naive.Weights(*(t.double().cpu() for t in c.w))
    return naive.block(c.x[:length].double().cpu(), w, size.top, c.factor.double().cpu(), EPS)


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double().cpu() - exact).norm() / exact.norm())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("length", [1, 5, 16])
def test_a_block_is_the_law_s(size, length, device):
    c = case(size, device)
    y, _, after = run(c, size, length)
    assert distance(y[:length], law(c, size, length)) < TOLERANCE
    again = left(y, c.factor)
    assert torch.equal(after.normed.scaled[:length], again.normed.scaled[:length])
    assert (
        distance(after.normed.squares[:, :length], again.normed.squares.double().cpu()[:, :length])
        < TOLERANCE
    )


@pytest.mark.parametrize("size", ROUTERS)
@pytest.mark.parametrize("length", [1, 2, 9, 16])
def test_the_list_holds_each_expert_once_in_ascending_order(size, length, device):
    c, routed = case(size, device, seed=length), routed_for(size, device)
    scalar = torch.tensor(length, dtype=torch.int32, device=device)
    route(left(c.x, c.factor).normed, EPS, c.w.router, scalar, routed, Workspace.empty(device))
    u = linear.norm(c.x.double().cpu(), c.factor.double().cpu(), EPS)
    assert distance(routed.logits, u @ c.w.router.double().cpu().T) < TOLERANCE
    ids, shares = naive.route(routed.logits[:length, :-1], size.top)
    assert torch.equal(routed.ids[:length].long(), ids)
    distinct = sorted(set(ids.flatten().tolist()))
    count = int(routed.count)
    assert routed.distinct[:count].tolist() == distinct
    assert routed.before.tolist() == [sum(e < i for e in distinct) for i in range(size.count + 1)]
    assert torch.allclose(routed.shares[:length], shares, rtol=1e-6)  # fp32 roundings
    assert (routed.shares[length:] == 0).all()
    opening = routed.logits[:, -1].sigmoid()
    assert torch.allclose(routed.opening[:length], opening[:length], rtol=1e-6)  # likewise
    assert (routed.opening[length:] == 0).all()


def test_choosing_again_for_fewer_tokens_is_routing_them_alone(device):
    size, space = SIZES[1], Workspace.empty(device)
    c, again = case(size, device), routed_for(size, device)
    normed = left(c.x, c.factor).normed
    lengths = [torch.tensor(n, dtype=torch.int32, device=device) for n in (12, 5)]
    route(normed, EPS, c.w.router, lengths[0], again, space)
    choose(lengths[1], again, space)
    alone = routed_for(size, device)
    route(normed, EPS, c.w.router, lengths[1], alone, space)
    count = int(alone.count)
    assert torch.equal(again.distinct[:count], alone.distinct[:count])
    for name in ("shares", "opening", "before"):
        assert torch.equal(getattr(again, name), getattr(alone, name)), name
    assert not space.arrived.any()


def test_ties_go_to_the_lowest_expert(device):
    """Also between 0 and -0, and where all are equal."""
    size = Size(16, 9, 3, 1, 1)
    routed, normed = routed_for(size, device), Normed.empty(16, torch.float32, device)
    normed.scaled.zero_()
    normed.squares.fill_(1.0)
    normed.scaled[1, 0], normed.scaled[2, 0] = 1.0, -1.0
    router = torch.zeros(10, 16, device=device)
    router[4, 0], router[7, 0] = 1.0, 1.0
    length = torch.tensor(3, dtype=torch.int32, device=device)
    route(normed, EPS, router, length, routed, Workspace.empty(device))
    assert routed.ids[:3].tolist() == [[0, 1, 2], [4, 7, 0], [0, 1, 2]]


def test_a_token_s_bits_depend_neither_on_the_length_nor_on_others(device):
    size = SIZES[0]
    c = case(size, device)
    alone, among = run(c, size, 1), run(c, size, 16)
    assert torch.equal(alone.y[0], among.y[0])
    hostile = c.x.clone()
    hostile[1:] = 3e38
    hostile[7] = NAN
    beside = run(c._replace(x=hostile), size, 1)
    assert torch.equal(alone.y[0], beside.y[0])
    assert torch.equal(alone.after.normed.squares[:, 0], beside.after.normed.squares[:, 0])


@pytest.mark.parametrize(
    "cuts",
    [
        Cuts(ProductConfig(16, 16), ExpertConfig(16, 16), ExpertConfig(16, 16)),
        Cuts(
            ProductConfig(32, 16, split=8),
            ExpertConfig(32, 64, 2, 2),
            ExpertConfig(32, 16, 2, 2, 4),
        ),
        Cuts(down=ExpertConfig(16, 64, groups=16)),
    ],
)
def test_every_cut_is_right(cuts, device):
    """Also with more groups than experts."""
    size = SIZES[0]
    c = case(size, device)
    assert distance(run(c, size, 16, cuts).y, law(c, size, 16)) < TOLERANCE
