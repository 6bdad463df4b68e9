"""The kernels in the place of the model's own attention: the target's layers, the drafter's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from attention_cases import CUT, EPS, NAN, TOLERANCE, Cache, distance, scalar

from builders import drafter_config, fill, target_config
from hybridspec.kernels.attention.config import PAST, Sight
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.attention.split import attend, room
from hybridspec.kernels.last import Workspace
from hybridspec.model.attention import GatedAttention
from hybridspec.model.attention import attend as attend_law
from hybridspec.model.drafter import Drafter
from hybridspec.model.layers import Rope
from hybridspec.runtime.drafter_state import DrafterState

CPU = torch.device("cpu")


def serve(rows, heads, norms, rope, cache, position, *, gated, sight) -> torch.Tensor:
    """Both kernels on rows [w, R] of the joint projection."""
    device, w, size = rows.device, len(rows), cache.keys.shape[-1]
    joint = torch.full((16, rows.shape[1]), NAN, device=device)
    joint[:w] = rows
    q = torch.full((16, heads, size), NAN, device=device)
    out = torch.full((16, heads * size), NAN, device=device)
    at = scalar(position, device), scalar(w, device)
    prepare(joint, norms, rope, *cache, *at, q, gated=gated, ring=sight.ring)
    space = Workspace.empty(device, *room(heads, len(cache.keys), size, cache.keys.shape[1], CUT))
    attend(q, joint if gated else None, *cache, *at, out, space, CUT, sight=sight)
    return out[:w]


def single(*tensors: torch.Tensor, device) -> list[torch.Tensor]:
    return [t.float().to(device) for t in tensors]


def test_a_target_s_layer_over_rounds(device):
    config = target_config(rms_norm_eps=EPS)
    kv, size, rows = config.num_key_value_heads, config.head_dim, 64
    layer = GatedAttention(config, CPU, torch.float64)
    g = torch.Generator().manual_seed(0)
    for slot in layer.slots().values():
        slot.copy_(torch.randn(slot.shape, generator=g) * 0.3)
    layer.prepare()
    rope = Rope(1e4, config.head_dim // 4, rows, CPU, torch.float64)
    norms = Norms(*single(1 + layer.norm[0], 1 + layer.norm[1], device=device), EPS)
    tables = Tables(*single(rope.cos, rope.sin, device=device))
    exact = Cache(*torch.zeros(2, kv, rows, size, dtype=torch.float64))
    ours = Cache(*torch.full((2, kv, rows, size), NAN, device=device))
    start = 0
    for w in (16, 1, 7, 12):
        u = torch.randn(w, config.hidden_size, generator=g, dtype=torch.float64)
        expected = layer(u, *exact, start, rope)
        (joint,) = single(u @ layer.w_in.T, device=device)
        found = serve(joint, config.num_attention_heads, norms, tables, ours, start,
                      gated=True, sight=PAST)  # fmt: skip
        assert distance(found, expected) < TOLERANCE
        start += w
    assert distance(ours.values[:, :start], exact.values[:, :start]) < TOLERANCE


@pytest.mark.parametrize("is_causal", [None, False, True])
@pytest.mark.parametrize(
    "context", [3, 30, 90]
)  # a window of 24 and 40 rows: not full, once, twice
def test_a_drafter_s_block(context, is_causal, device):
    target = target_config()
    config = drafter_config(target, is_causal=is_causal)
    drafter = Drafter(config, dtype=torch.float64)
    fill(drafter, 1)
    drafter.prepare()
    drafter.set_context(128)
    slot = DrafterState(config, 128, dtype=torch.float64).slot()
    g = torch.Generator().manual_seed(2)
    taps = len(config.target_layer_ids) * config.hidden_size
    drafter.extend(torch.randn(context, taps, generator=g, dtype=torch.float64), slot)
    start, end, ring = slot.length, slot.length + 16, slot.ring.shape[-2]
    tables = Tables(*single(drafter.rope.cos, drafter.rope.sin, device=device))
    sliding = Sight(config.is_causal is not False, config.sliding_window, ring=True)
    x = torch.randn(16, config.hidden_size, generator=g, dtype=torch.float64)
    caches = list(slot.layers(drafter.sliding))
    for i in (0, 2):  # a sliding layer and the full one
        layer, (keys, values) = drafter.layers[i], caches[i]
        ours = Cache(*single(keys, values, device=device))
        q, k, v = layer.project(x, drafter.rope, start)
        if drafter.sliding[i]:
            places, rows, seen = drafter._ring_rows(start, end, ring)
        else:
            mask = torch.ones(16, 16, dtype=torch.bool).tril() if drafter.causal else None
            places, rows, seen = slice(start, end), end, mask
        keys[:, places], values[:, places] = k.transpose(0, 1), v.transpose(0, 1)
        expected = attend_law(q, keys[:, :rows], values[:, :rows], seen)
        (joint,) = single(F.linear(layer.mixer_norm(x), layer.w_in), device=device)
        norms = Norms(*single(layer.q_norm, layer.k_norm, device=device), config.rms_norm_eps)
        sight = sliding if drafter.sliding[i] else Sight(drafter.causal)
        found = serve(joint, config.num_attention_heads, norms, tables, ours, start,
                      gated=False, sight=sight)  # fmt: skip
        assert distance(found, expected) < TOLERANCE
        assert distance(ours.keys[:, :rows], keys[:, :rows]) < TOLERANCE


@pytest.mark.parametrize("context", [20, 47])
def test_a_drafter_s_context_has_no_queries(context, device):
    """Five tokens join a ring of 40 rows: the last of them at its end, or beyond."""
    config = drafter_config(target_config(), layer_types=("sliding_attention",))
    drafter = Drafter(config, dtype=torch.float64)
    fill(drafter, 1)
    drafter.prepare()
    drafter.set_context(128)
    slot = DrafterState(config, 128, dtype=torch.float64).slot()
    taps = len(config.target_layer_ids) * config.hidden_size
    g = torch.Generator().manual_seed(3)
    drafter.extend(torch.randn(context, taps, generator=g, dtype=torch.float64), slot)
    ours = Cache(*single(*slot.ring[:, 0], device=device))
    features = torch.randn(5, taps, generator=g, dtype=torch.float64)
    c = drafter.context_norm(F.linear(features, drafter.fc))
    joint = torch.full((16, 2 * ours.keys.shape[0] * ours.keys.shape[2]), NAN, device=device)
    heads = config.num_attention_heads * config.head_dim
    joint[:5] = (c @ drafter.w_in[0, heads:].T).float().to(device)
    drafter.extend(features, slot)
    (factor,) = single(drafter.k_norms[0], device=device)
    tables = Tables(*single(drafter.rope.cos, drafter.rope.sin, device=device))
    prepare(joint, Norms(factor, factor, config.rms_norm_eps), tables, *ours,
            scalar(context, device), scalar(5, device), None, ring=True)  # fmt: skip
    for found, exact in zip(ours, slot.ring[:, 0], strict=True):
        assert distance(found, exact) < TOLERANCE
