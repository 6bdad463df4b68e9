"""Attention over a cache against float64, and its bits against themselves."""

from __future__ import annotations

import itertools

import pytest
import torch
from attention_cases import (
    CUT,
    GUARD,
    NAN,
    PLAIN,
    SIZES,
    TOLERANCE,
    Size,
    case,
    distance,
    hostile,
    law,
    scalar,
    serve,
)

from hybridspec.kernels.attention.config import AttentionConfig, Sight
from hybridspec.kernels.attention.split import attend
from hybridspec.kernels.last import Workspace

POSITIONS = (0, 1, 15, 16, 31, 63, 64, 65)  # around the borders of splits and groups
# every length, each at two positions
ROUNDS = [(POSITIONS[(i * k + k) % 8], i + 1) for i in range(16) for k in (1, 3)]
SIGHTS = [
    Sight(causal=False),
    Sight(window=40, ring=True),
    Sight(causal=False, window=40, ring=True),
    Sight(window=9),
]
RING = 56  # rows: a window of 40 and a block of 16


@pytest.mark.parametrize(("position", "length"), ROUNDS)
def test_every_length(position, length, device):
    c = case(SIZES[2], device, length, seed=length)
    cache = hostile(c.cache, position)
    expected, after = law(c, cache, position, c.qkv)
    assert distance(serve(c, cache, position, c.qkv), expected) < TOLERANCE
    end = position + length
    for ours, exact in zip(cache, after, strict=True):
        assert distance(ours[:, :end], exact[:, :end]) < TOLERANCE
        assert ours[:, end:].isnan().all()
        assert (ours._base[:, [0, -1]] == GUARD).all()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("config", [CUT, None, AttentionConfig(64, 32, group=3)], ids=str)
def test_every_size_and_cut(size, config, device):
    c = case(size, device, 5)
    cache = hostile(c.cache, 70)
    expected, _ = law(c, cache, 70, c.qkv)
    assert distance(serve(c, cache, 70, c.qkv, config=config), expected) < TOLERANCE


@pytest.mark.parametrize("sight", SIGHTS, ids=str)
@pytest.mark.parametrize(("position", "length"), [(0, 16), (30, 16), (50, 7), (300, 16)])
def test_what_a_row_sees(sight, position, length, device):
    rows = RING if sight.ring else 320
    c = case(PLAIN, device, length, rows)
    cache = hostile(c.cache, position)
    expected, _ = law(c, cache, position, c.qkv, sight)
    assert distance(serve(c, cache, position, c.qkv, sight), expected) < TOLERANCE


@pytest.mark.parametrize(
    ("position", "rounds"), [(24, [1] * 16), (0, [5, 11]), (50, [3, 1, 8, 4])], ids=str
)
def test_bits_do_not_depend_on_how_tokens_come_in_rounds(position, rounds, device):
    c = case(Size(4, 1, 16, 4), device)
    at_once, apart = hostile(c.cache, position), hostile(c.cache, position)
    whole = serve(c, at_once, position, c.qkv)
    starts = itertools.accumulate(rounds[:-1], initial=0)
    parts = [
        serve(c, apart, position + i, c.qkv[i : i + n]) for i, n in zip(starts, rounds, strict=True)
    ]
    assert torch.equal(torch.cat(parts), whole)
    end = position + 16
    assert all(torch.equal(a[:, :end], b[:, :end]) for a, b in zip(at_once, apart, strict=True))


def test_a_row_s_bits_do_not_depend_on_hostile_ones_after_it(device):
    """Rows within the length: a later token that is broken, or huge, harms no earlier one."""
    c = case(SIZES[2], device)
    whole = serve(c, hostile(c.cache, 40), 40, c.qkv)
    broken = c.qkv.clone()
    broken[5], broken[9], broken[11], broken[13, -1] = 3e38, NAN, float("inf"), NAN
    harmed = serve(c, hostile(c.cache, 40), 40, broken)
    assert torch.equal(harmed[:5], whole[:5])
    assert not harmed[9:].isfinite().any(1).any()


def test_a_value_that_is_not_finite_reaches_those_who_see_it(device):
    """Also where it is but one number of one head's."""
    c = case(SIZES[2], device)
    whole = serve(c, hostile(c.cache, 10), 10, c.qkv)
    c.qkv[3, -1] = NAN
    harmed = serve(c, hostile(c.cache, 10), 10, c.qkv)
    half = whole.shape[1] // 2  # the second key head's queries
    assert torch.equal(harmed[:3], whole[:3])
    assert torch.equal(harmed[:, :half], whole[:, :half])
    assert harmed[3:, half:].isnan().all()


def test_a_workspace_is_ready_for_the_next_kernel(device):
    c = case(SIZES[2], device)
    heads, size = c.size.heads, c.size.size
    q = torch.randn(16, heads, size, generator=torch.Generator().manual_seed(1)).to(device)
    space = Workspace.empty(device)
    first, second = (torch.empty(16, heads * size, device=device) for _ in range(2))
    at = scalar(90, device), scalar(16, device)
    attend(q, None, *c.cache, *at, first, space, CUT)
    space.parts.fill_(NAN)
    attend(q, None, *c.cache, *at, second, space, CUT)
    assert torch.equal(first, second)
    assert not space.arrived.any()


def test_a_capacity_beyond_the_context_changes_no_bit(device):
    """Programs without a split of their own leave; those that remain see what they saw."""
    short, long = case(PLAIN, device), case(PLAIN, device, rows=400)
    for a, b in zip(short.cache, long.cache, strict=True):
        b[:, : a.shape[1]] = a
    long = long._replace(qkv=short.qkv, norms=short.norms, rope=short.rope)
    results = [serve(c, hostile(c.cache, 60), 60, c.qkv) for c in (short, long)]
    assert torch.equal(*results)


def test_misuse_is_refused(device):
    c = case(Size(4, 2, 16, 4), device)
    q, out = torch.zeros(16, 4, 16, device=device), torch.zeros(16, 64, device=device)
    at = scalar(0, device), scalar(1, device)
    with pytest.raises(ValueError, match="workspace of"):
        attend(q, None, *c.cache, *at, out, Workspace.empty(device, 9))
    with pytest.raises(ValueError, match="multiples of 48"):
        attend(q, None, *c.cache, *at, out, Workspace.empty(device), AttentionConfig(16, 48))
    with pytest.raises(ValueError, match="lie alike"):
        attend(q, None, c.cache.keys[:, ::2], c.cache.values[:, ::2], *at, out,
               Workspace.empty(device))  # fmt: skip
