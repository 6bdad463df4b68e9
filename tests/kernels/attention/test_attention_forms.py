"""The form whose parts a launch of its own adds: against float64, and bits against bits."""

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
    serve,
)

from hybridspec.kernels.attention.config import AttentionConfig, CombineConfig, Sight
from hybridspec.kernels.attention.forms import Form

# Of a round: inside a step, over its border, over a split's, over a longer split's steps.
ROUNDS = [(0, 1), (13, 16), (31, 1), (63, 5), (96, 16)]
# several steps a split
LONG = AttentionConfig(16, 16, ladder=((0, 32), (64, 48)))


@pytest.mark.parametrize(("position", "length"), ROUNDS)
@pytest.mark.parametrize("config", [CUT, LONG], ids=["short", "long"])
def test_rounds_at_every_border(config, position, length, device):
    c = case(SIZES[2], device, length, seed=length)
    cache = hostile(c.cache, position)
    expected, after = law(c, cache, position, c.qkv)
    found = serve(c, cache, position, c.qkv, config=config, form=Form.APART)
    assert distance(found, expected) < TOLERANCE
    end = position + length
    for ours, exact in zip(cache, after, strict=True):
        assert distance(ours[:, :end], exact[:, :end]) < TOLERANCE
        assert ours[:, end:].isnan().all()
        assert (ours._base[:, [0, -1]] == GUARD).all()


@pytest.mark.full  # minutes, interpreted; what the engine takes is tested in its passes
@pytest.mark.parametrize(
    ("size", "config"),
    [(SIZES[0], CUT), (SIZES[1], None), (SIZES[2], AttentionConfig(64, 32)), (SIZES[3], CUT)],
    ids=str,
)
def test_both_forms_agree(size, config, device):
    """Whoever adds the parts; the order of the sums is another."""
    c = case(size, device, 5)
    forms = (Form.JOINED, Form.APART)
    caches = [hostile(c.cache, 70) for _ in forms]
    expected, _ = law(c, caches[0], 70, c.qkv)
    found = [
        serve(c, cache, 70, c.qkv, config=config, form=form, own=None)
        for cache, form in zip(caches, forms, strict=True)
    ]
    assert all(distance(o, expected) < TOLERANCE for o in found)
    for a, b in zip(*caches, strict=True):
        assert torch.equal(b[:, :75], a[:, :75])
        assert b[:, 75:].isnan().all()


@pytest.mark.full  # minutes, interpreted; what the engine takes is tested in its passes
@pytest.mark.parametrize(
    "sight",
    [
        Sight(causal=False),
        Sight(window=9),
        Sight(window=40, ring=True),
        Sight(causal=False, window=40, ring=True),
    ],
    ids=str,
)
@pytest.mark.parametrize(("position", "length"), [(50, 7), (300, 16)])
def test_what_a_row_sees(sight, position, length, device):
    c = case(PLAIN, device, length, 56 if sight.ring else 320)
    cache = hostile(c.cache, position)
    expected, _ = law(c, cache, position, c.qkv, sight)
    found = serve(c, cache, position, c.qkv, sight, form=Form.APART)
    assert distance(found, expected) < TOLERANCE


@pytest.mark.full  # minutes, interpreted; what the engine takes is tested in its passes
@pytest.mark.parametrize("config", [CUT, LONG], ids=["short", "long"])
@pytest.mark.parametrize(
    ("position", "rounds"), [(24, [1] * 4 + [12]), (50, [3, 1, 8, 4])], ids=str
)
def test_bits_do_not_depend_on_how_tokens_come_in_rounds(position, rounds, config, device):
    """A key is of the cache in one division and of the round in another."""
    c = case(Size(4, 1, 16, 4), device)
    at_once, apart = hostile(c.cache, position), hostile(c.cache, position)
    whole = serve(c, at_once, position, c.qkv, config=config, form=Form.APART)
    starts = itertools.accumulate(rounds[:-1], initial=0)
    parts = [
        serve(c, apart, position + i, c.qkv[i : i + n], config=config, form=Form.APART)
        for i, n in zip(starts, rounds, strict=True)
    ]
    assert torch.equal(torch.cat(parts), whole)
    end = position + 16
    assert all(torch.equal(a[:, :end], b[:, :end]) for a, b in zip(at_once, apart, strict=True))


def test_a_row_s_bits_do_not_depend_on_hostile_ones_after_it(device):
    c = case(SIZES[2], device)
    whole = serve(c, hostile(c.cache, 40), 40, c.qkv, form=Form.APART)
    broken = c.qkv.clone()
    broken[5], broken[9], broken[11], broken[13, -1] = 3e38, NAN, float("inf"), NAN
    harmed = serve(c, hostile(c.cache, 40), 40, broken, form=Form.APART)
    assert torch.equal(harmed[:5], whole[:5])
    assert not harmed[9:].isfinite().any(1).any()


def test_a_value_that_is_not_finite_reaches_those_who_see_it(device):
    """In its own round, and in the next, which finds it in the cache."""
    c, w = case(SIZES[2], device), 11
    cache = hostile(c.cache, 10)
    whole = serve(c, hostile(c.cache, 10), 10, c.qkv, form=Form.APART)
    c.qkv[3, -1] = NAN
    rounds = (10, c.qkv[:w]), (10 + w, c.qkv[w:])
    harmed = torch.cat([serve(c, cache, *part, form=Form.APART) for part in rounds])
    half = whole.shape[1] // 2  # the second key head's queries
    assert torch.equal(harmed[:3], whole[:3])
    assert torch.equal(harmed[:, :half], whole[:, :half])
    assert harmed[3:, half:].isnan().all()


def test_a_capacity_beyond_the_context_changes_no_bit(device):
    short, long = case(PLAIN, device), case(PLAIN, device, rows=400)
    for a, b in zip(short.cache, long.cache, strict=True):
        b[:, : a.shape[1]] = a
    long = long._replace(qkv=short.qkv, norms=short.norms, rope=short.rope)
    found = [serve(c, hostile(c.cache, 60), 60, c.qkv, form=Form.APART) for c in (short, long)]
    assert torch.equal(*found)


@pytest.mark.full  # minutes, interpreted; what the engine takes is tested in its passes
@pytest.mark.parametrize("own", [CombineConfig(8, 1), CombineConfig(32, 4), CombineConfig(64, 16)])
def test_every_cut_of_the_adding(own, device):
    c = case(SIZES[3], device, 6)
    cache = hostile(c.cache, 90)
    expected, _ = law(c, cache, 90, c.qkv)
    assert distance(serve(c, cache, 90, c.qkv, form=Form.APART, own=own), expected) < TOLERANCE
