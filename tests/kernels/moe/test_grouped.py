"""Experts of many tokens, sorted and grouped, against each token by itself in float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from hybridspec.kernels.moe import grouped, tiles
from hybridspec.kernels.moe.config import TileConfig

NEAR = 1e-5  # fp32 sums of some dozen terms


def layer(tokens, experts=6, top=2, hidden=32, width=16, seed=0, skewed=False):
    """u, ids, weights, gate_up, down, base. `skewed`: most tokens choose the same experts."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    logits = normal(tokens, experts) + (torch.arange(experts) * 3.0 if skewed else 0.0)
    best, ids = logits.topk(top, -1)
    weights = (normal(experts, 2 * width, hidden), normal(experts, hidden, width))
    scaled = (w * w.shape[-1] ** -0.5 for w in weights)
    return normal(tokens, hidden), ids, best.softmax(-1), *scaled, normal(tokens, hidden)


def one_by_one(u, ids, weights, gate_up, down, base):
    u, weights, gate_up, down, base = (t.double() for t in (u, weights, gate_up, down, base))
    for t, (chosen, shares) in enumerate(zip(ids.tolist(), weights, strict=True)):
        for e, share in zip(chosen, shares, strict=True):
            gate, up = (gate_up[e] @ u[t]).chunk(2)
            base[t] += share * (down[e] @ (F.silu(gate) * up))
    return base


def distance(ours, exact):
    return float((ours.double().cpu() - exact).norm() / exact.norm())


@pytest.mark.parametrize("skewed", [False, True], ids=["even", "skewed"])
@pytest.mark.parametrize("tokens", [1, 17, 63, 130])
def test_tiles_are_the_sum_over_experts(tokens, skewed, device):
    given = layer(tokens, skewed=skewed, seed=tokens)
    ours = grouped.combine(*(t.to(device) for t in given), library=False)
    assert distance(ours, one_by_one(*given)) < NEAR


@pytest.mark.parametrize(("hidden", "width", "top"), [(48, 24, 1), (40, 20, 5)])
def test_sizes_that_no_tile_divides(hidden, width, top, device):
    given = layer(40, hidden=hidden, width=width, top=top)
    ours = grouped.combine(*(t.to(device) for t in given), library=False)
    assert distance(ours, one_by_one(*given)) < NEAR


def test_the_library_s_products_are_the_sum_too():
    """On a CPU torch loops over groups; the same call as on a card."""
    given = layer(33)
    u, ids, weights, gate_up, down, base = given
    sort = grouped.order(ids, len(down))
    gate, up = grouped.library_product(u[sort.token], gate_up, sort.ends).chunk(2, -1)
    y = grouped.library_product(F.silu(gate) * up, down, sort.ends)
    mixed = base + (y[sort.place].view(33, 2, -1) * weights[..., None]).sum(1)
    assert distance(mixed, one_by_one(*given)) < NEAR


def test_order_is_by_expert_then_token(device):
    ids = torch.tensor([[3, 0], [0, 3], [5, 3]], device=device)
    sort = grouped.order(ids, 7)
    assert sort.token.tolist() == [0, 1, 0, 1, 2, 2]
    assert sort.ends.tolist() == [2, 2, 2, 5, 5, 6, 6]
    assert sort.place.tolist() == [2, 0, 1, 3, 5, 4]


def test_a_token_does_not_depend_on_others(device):
    """The tile's size is the same, and so is the order of every sum."""
    u, ids, weights, gate_up, down, base = (t.to(device) for t in layer(63))
    config = TileConfig(16, 32, 16)
    results = []
    for part in (slice(0, 63), slice(10, 30)):
        sort = grouped.order(ids[part], len(down))
        cut = tiles.cut(sort.ends, len(sort.token), config)
        y = tiles.product(tiles.gate_up(u[part], sort.token, gate_up, cut), down, cut)
        results.append(grouped.add_up(y, sort.place, weights[part].contiguous(), base[part]))
    assert torch.equal(results[0][10:30], results[1])


def test_experts_nobody_chose_are_not_read(device):
    given = layer(20, experts=12, top=1)
    idle = sorted(set(range(12)) - set(given[1].flatten().tolist()))
    assert idle
    expected = grouped.combine(*(t.to(device) for t in given), library=False)
    given[3][idle] = torch.nan
    given[4][idle] = torch.nan
    ours = grouped.combine(*(t.to(device) for t in given), library=False)
    assert torch.equal(ours, expected)


def test_a_cut_has_room_for_one_more_tile_a_group(device):
    ends = torch.tensor([5, 5, 22, 23], dtype=torch.int32, device=device)
    cut = tiles.cut(ends, 23, TileConfig(16, 16, 16))
    assert cut.last.tolist() == [1, 1, 3, 4]
    assert cut.group.tolist() == [0, 2, 2, 3, 4, 4]


def test_what_is_not_served_is_said():
    gate_up = torch.empty(2, 8, 16)
    assert grouped.refusal(gate_up) is None
    assert "float64" in grouped.refusal(gate_up.double())
    assert "rows" in grouped.refusal(gate_up.transpose(1, 2))


def test_activation_takes_rows_wider_than_a_step(device):
    x = torch.randn(3, 2 * 1100, generator=torch.Generator().manual_seed(0))
    gate, up = x.double().chunk(2, -1)
    assert distance(grouped.activate(x.to(device)), F.silu(gate) * up) < NEAR
