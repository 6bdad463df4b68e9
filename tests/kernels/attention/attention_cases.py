"""Inputs, runs of the kernels with hostile memory around, and the law in float64."""

from __future__ import annotations

from typing import NamedTuple

import torch

from hybridspec.kernels.attention import naive
from hybridspec.kernels.attention.config import PAST, AttentionConfig, CombineConfig, Sight
from hybridspec.kernels.attention.forms import Form, attention
from hybridspec.kernels.attention.prepare import Norms, Tables
from hybridspec.kernels.attention.split import room
from hybridspec.kernels.last import Workspace
from hybridspec.model.layers import Rope

EPS, NAN, GUARD = 1e-6, float("nan"), 7.0
# Splits of 16 and 32 rows in groups of two: several splits, groups and tiles at small sizes.
CUT = AttentionConfig(16, 16, group=2, ladder=((0, 16), (32, 32)))
COMBINE = CombineConfig(16, 4)  # several programs a head, several steps
TOLERANCE = 2e-6  # fp32: norms, rotations and sums of at most 200 products, each rounded to 6e-8


class Size(NamedTuple):
    heads: int
    kv: int
    size: int
    rotated: int
    gated: bool = True


# The ratios of the 35B and 122B targets and of the embedded pair; odd counts, sizes between powers
# of two; the drafters'.
SIZES = [Size(8, 1, 16, 4), Size(16, 1, 16, 8), Size(4, 2, 32, 8), Size(9, 3, 24, 8)]
PLAIN = Size(4, 2, 16, 16, gated=False)


class Cache(NamedTuple):
    keys: torch.Tensor
    values: torch.Tensor


class Case(NamedTuple):
    """One layer's constants and the projections of tokens to come."""

    size: Size
    qkv: torch.Tensor
    norms: Norms
    rope: Tables
    cache: Cache


def case(size: Size, device, tokens: int = 16, rows: int = 112, seed: int = 0) -> Case:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(device)

    wide = (size.heads * (2 if size.gated else 1) + 2 * size.kv) * size.size
    rope = Rope(1e4, size.rotated, rows + 512, device, torch.float32)
    return Case(
        size, normal(tokens, wide),
        Norms(1 + 0.5 * normal(size.size), 1 + 0.5 * normal(size.size), EPS),
        Tables(rope.cos, rope.sin),
        Cache(normal(size.kv, rows, size.size), normal(size.kv, rows, size.size)),
    )  # fmt: skip


def scalar(value: int, device) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=device)


def guarded(*shape: int, device) -> tuple[torch.Tensor, torch.Tensor]:
    """NaN of that shape in the middle of guards; and all of it."""
    whole = torch.full((shape[0] + 2, *shape[1:]), GUARD, device=device)
    whole[1:-1] = NAN
    return whole[1:-1], whole


def serve(
    c: Case, cache: Cache, position: int, qkv: torch.Tensor, sight: Sight = PAST,
    config: AttentionConfig | None = CUT, form: Form = Form.JOINED,
    own: CombineConfig | None = COMBINE,
) -> torch.Tensor:  # fmt: skip
    """A round of tokens [w, R]: outputs [w, H D]. The cache takes their keys."""
    heads, kv, size, _, gated = c.size
    device, w, rows = qkv.device, len(qkv), cache.keys.shape[1]
    joint = torch.full((16, qkv.shape[1] + 5), NAN, device=device)
    joint[:w, :-5] = qkv
    q, all_q = guarded(16, heads, size, device=device)
    out, all_out = guarded(16, heads * size, device=device)
    at = scalar(position, device), scalar(w, device)
    space = Workspace.empty(device, *room(heads, kv, size, rows, config))
    space.parts.fill_(NAN)
    attention(joint[:, :-5], c.norms, c.rope, *cache, *at, q, out, space, config, own,
              gated=gated, sight=sight, form=form)  # fmt: skip
    assert q[w:].isnan().all()
    assert not space.arrived.any()
    assert not out[w:].any()
    for whole in (all_q, all_out):
        assert (whole[[0, -1]] == GUARD).all()
    return out[:w]


def hostile(cache: Cache, position: int) -> Cache:
    """A copy: NaN where nothing has been written, between two guards."""
    made = []
    for t in cache:
        whole = torch.full((t.shape[0], t.shape[1] + 2, t.shape[2]), GUARD, device=t.device)
        whole[:, 1:-1] = t
        whole[:, 1 + position : -1] = NAN
        made.append(whole[:, 1:-1])
    return Cache(*made)


def law(
    c: Case, cache: Cache, position: int, qkv: torch.Tensor, sight: Sight = PAST
) -> tuple[torch.Tensor, Cache]:
    """Outputs [w, H D] and the cache afterwards, in float64."""
    heads, kv, size, _, gated = c.size
    w, rows = len(qkv), cache.keys.shape[1]
    q, gate, k, v = naive.split(qkv.double().cpu(), heads, kv, size, gated=gated)
    cos, sin = (t[position : position + w].double().cpu() for t in c.rope)
    factors = [t.double().cpu() for t in c.norms[:2]]
    after = Cache(*(t.double().cpu().clone() for t in cache))
    at = naive.places(position, w, rows, sight)
    after.keys[:, at] = naive.turned(k, factors[1], EPS, cos, sin).transpose(0, 1)
    after.values[:, at] = v.transpose(0, 1)
    q = naive.turned(q, factors[0], EPS, cos, sin)
    o = naive.attend(q, *after, naive.visible(position, w, rows, sight))
    return (o if gate is None else o * gate.sigmoid()).flatten(1), after


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double().cpu() - exact).norm() / exact.norm())
