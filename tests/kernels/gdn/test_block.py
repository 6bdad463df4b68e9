"""The block form's kernel against the float64 law."""

from __future__ import annotations

import pytest
import torch
from gdn_forms import LENGTHS, OUTPUTS, SHAPES, distance, inputs, law

from hybridspec.kernels.gdn import block, naive
from hybridspec.kernels.gdn.config import GDNConfig


def run(x, w, *config):
    """o, z [w, ...] of a verification of w of 16 tokens; rows beyond are left alone."""
    o, z = (torch.full_like(x.v, float("nan")) for _ in range(2))
    length = torch.tensor(w, dtype=torch.int32, device=x.v.device)
    block.verify(*x[:5], x.state, o, z, length, *config)
    assert o[w:].isnan().all()
    assert z[w:].isnan().all()
    return o[:w], z[:w]


def on(device, *args, **kwargs):
    return type(x := inputs(*args, **kwargs))(*(t.to(device) for t in x))


def check(x, w, *config):
    o, z = run(x, w, *config)
    exact = type(x)(*(t[:w].double().cpu() for t in x[:5]), x.state.double().cpu())
    assert distance(o.double().cpu(), law(exact)[0]) < OUTPUTS
    assert distance(z.double().cpu(), naive.block(*exact)[1]) < OUTPUTS


@pytest.mark.parametrize("w", LENGTHS)
def test_every_length_is_the_law_s(w, device):
    check(on(device, seed=w), w)


@pytest.mark.parametrize("shape", [*SHAPES, (2, 4, 128, 40)])
def test_odd_sizes(shape, device):
    check(on(device, shape=shape, seed=3), 11)


@pytest.mark.parametrize("g", [0.0, -1e-7, -30.0, -1e4])
def test_extreme_decay(g, device):
    check(on(device, g=g), 16)


@pytest.mark.parametrize("g", [-30.0, -300.0, -1e4])
def test_a_strong_decay_among_weak_ones(g, device):
    x = on(device)
    strong = torch.rand(x.g.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    check(x._replace(g=torch.where(strong.to(device), g, -0.01)), 16)


@pytest.mark.parametrize("g", [0.0, -1e4])
def test_one_key_for_ever_with_full_writing(g, device):
    """The inverse is tame here, and the powers of what it inverts are not."""
    check(on(device, g=g, beta=1.0, one_key=True), 16)


def test_tokens_beyond_the_length_do_no_harm(device):
    x = on(device)
    hostile = type(x)(*(t.clone() for t in x))
    for t in hostile[:5]:
        t[5:] = float("nan")
    for ours, theirs in zip(run(x, 5), run(hostile, 5), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("config", [GDNConfig(16, 1), GDNConfig(64, 4)])
def test_every_cut_is_right(config, device):
    check(on(device, shape=(2, 4, 128, 40), seed=3), 16, config)
