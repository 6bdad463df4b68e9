"""The drafter's block: what stands in its rows, and what its windows let a row see."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
import torch
import torch.nn.functional as F

from builders import random_drafter, random_target, target_config
from hybridspec.runtime.state import DrafterState
from scripted import TINY, TINY_DRAFTER

HIDDEN, WINDOW, LAST = 16, 4096, 8192
SMALL_TARGET = target_config(hidden_size=HIDDEN, vocab_size=50, layer_types=("full_attention",))
WINDOWED = dataclasses.replace(
    TINY_DRAFTER,
    vocab_size=50,
    hidden_size=HIDDEN,
    num_attention_heads=2,
    num_key_value_heads=1,
    intermediate_size=8,
    target_layer_ids=(0,),
    mask_token_id=49,
    sliding_window=WINDOW,
    layer_types=("sliding_attention", "full_attention", "sliding_attention"),
)


class SpiedEmbedding:
    """Keeps the ids that are looked up."""

    def __init__(self, table):
        self.table, self.ids = table, []

    def __getitem__(self, ids):
        self.ids.append(ids.tolist())
        return self.table[ids]


@pytest.mark.parametrize("block_size", [4, 16])
def test_row_0_is_the_anchor_and_the_rest_are_masks(block_size):
    config = dataclasses.replace(TINY_DRAFTER, block_size=block_size, mask_token_id=77)
    drafter, target = random_drafter(config), random_target(TINY)
    target.embedding = SpiedEmbedding(target.embedding)
    slot = DrafterState(config, 64).slot()
    drafter.extend(torch.randn(9, 3 * TINY.hidden_size), slot)
    drafter.propose(target, 123, slot, 3)
    assert target.embedding.ids == [[123] + [77] * (block_size - 1)]


def test_fewer_drafts_are_the_first_of_the_block():
    """Asking for less changes no token: all rows are there, since they see each other."""
    drafter, target = random_drafter(TINY_DRAFTER), random_target(TINY)
    slot = DrafterState(TINY_DRAFTER, 64).slot()
    generator = torch.Generator().manual_seed(0)
    drafter.extend(torch.randn(30, 3 * TINY.hidden_size, generator=generator), slot)
    proposals = [drafter.propose(target, 5, slot, n).tokens.tolist() for n in range(1, 16)]
    assert len(proposals[-1]) == 15
    for n, proposal in enumerate(proposals, 1):
        assert proposal == proposals[-1][:n]
    assert slot.length == 30


@pytest.mark.parametrize("kinds", ["causal", "all sliding"])
def test_a_causal_drafter_runs_only_the_rows_it_is_asked_for(kinds):
    config = dataclasses.replace(TINY_DRAFTER, is_causal=True)
    if kinds == "all sliding":
        sliding = ("sliding_attention",) * TINY_DRAFTER.num_hidden_layers
        config = dataclasses.replace(TINY_DRAFTER, layer_types=sliding, sliding_window=20)
    drafter, target = random_drafter(config), random_target(TINY)
    target.embedding = SpiedEmbedding(target.embedding)
    slot = DrafterState(config, 64).slot()
    generator = torch.Generator().manual_seed(0)
    drafter.extend(torch.randn(30, 3 * TINY.hidden_size, generator=generator), slot)
    proposals = [drafter.propose(target, 5, slot, n).tokens.tolist() for n in range(1, 16)]
    assert [len(ids) for ids in target.embedding.ids] == list(range(2, 17))
    for n, proposal in enumerate(proposals, 1):
        assert proposal == proposals[-1][:n]


def test_scores_are_of_the_proposed_tokens():
    drafter, target = random_drafter(TINY_DRAFTER), random_target(TINY)
    slot = DrafterState(TINY_DRAFTER, 64).slot()
    drafter.extend(torch.ones(3, 3 * TINY.hidden_size), slot)
    plain, scored = (drafter.propose(target, 5, slot, 15, scored=s) for s in (False, True))
    assert plain.confidence is None
    assert torch.equal(plain.tokens, scored.tokens)
    p = (
        target.logits(
            drafter.final_norm(drafter._block(target, 5, slot, drafter.config.block_size)[1:])
        )
        .double()
        .softmax(-1)
    )
    torch.testing.assert_close(scored.confidence.double(), p.max(-1).values, rtol=1e-5, atol=0)
    torch.testing.assert_close(scored.entropy.double(), -(p * p.log()).sum(-1), rtol=1e-5, atol=0)


def rms(x, w):
    return F.rms_norm(x, x.shape[-1:], w, 1e-6)


def rotated(drafter, x, positions):
    """x [T, heads, D] turned at any positions."""
    return torch.cat([drafter.rope.rotate(x[i : i + 1], p) for i, p in enumerate(positions)])


def reference_block(drafter, target, features, anchor):
    """The block's rows from all keys at once, with the visibility of each written out."""
    config, w, context = drafter.config, drafter.slots(), len(features)
    heads, kv, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    rows = torch.arange(context, context + config.block_size)
    ids = torch.tensor([anchor] + [config.mask_token_id] * (config.block_size - 1))
    x = target.embedding[ids]
    c = rms(features @ w["fc.weight"].T, w["hidden_norm.weight"])
    for i, kind in enumerate(config.layer_types):
        p = f"layers.{i}."
        q_w, k_w, v_w, o_w = (w[f"{p}self_attn.{n}_proj.weight"] for n in "qkvo")
        u = rms(x, w[p + "input_layernorm.weight"])
        norm = {n: w[f"{p}self_attn.{n}_norm.weight"] for n in "qk"}
        q = rotated(drafter, rms((u @ q_w.T).view(-1, heads, size), norm["q"]), rows)
        both = torch.cat((c, u))
        k = rms((both @ k_w.T).view(-1, kv, size), norm["k"])
        k = drafter.rope.rotate(k, 0).repeat_interleave(heads // kv, 1)
        v = (both @ v_w.T).view(-1, kv, size).repeat_interleave(heads // kv, 1)
        keys = torch.arange(len(both))
        age = rows[:, None] - keys
        visible = (
            (age >= 0) & (age < WINDOW) if kind == "sliding_attention" else age > -config.block_size
        )
        scores = torch.einsum("thd,nhd->htn", q, k) / size**0.5
        attended = scores.masked_fill(~visible, -torch.inf).softmax(-1)
        x = x + torch.einsum("htn,nhd->thd", attended, v).flatten(1) @ o_w.T
        u = rms(x, w[p + "post_attention_layernorm.weight"])
        gate, up = (u @ w[f"{p}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ w[p + "mlp.down_proj.weight"].T
    return x


@pytest.fixture(scope="module")
def windowed():
    with torch.no_grad():
        drafter = random_drafter(WINDOWED, dtype=torch.float64, context=LAST)
        target = random_target(SMALL_TARGET, dtype=torch.float64)
        generator = torch.Generator().manual_seed(0)
        features = torch.randn(LAST, HIDDEN, generator=generator, dtype=torch.float64)
        return drafter, target, features


@pytest.mark.parametrize("context", [1, 4080, 4095, 4096, 4097, 4112, 4113, 8192])
def test_a_ring_sees_what_a_window_over_all_keys_sees(windowed, context):
    """Context in rounds of several sizes, with draft calls between that write ahead in the ring."""
    drafter, target, features = windowed
    slot = DrafterState(WINDOWED, LAST, dtype=torch.float64).slot()
    drafter.extend(features[: max(0, context - 150)], slot)
    for m in itertools.cycle([1, 16, 3, 9]):
        if slot.length == context:
            break
        drafter._block(target, 3, slot, drafter.config.block_size)
        drafter.extend(features[slot.length : min(slot.length + m, context)], slot)
    ours = drafter._block(target, 3, slot, drafter.config.block_size)
    expected = reference_block(drafter, target, features[:context], 3)
    # one order of float64 sums against another
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)


def test_the_windows_edge_is_seen_and_what_lies_past_it_is_not(windowed):
    """Row i at position P + i sees the keys P + i - window + 1 and later."""
    _, target, features = windowed
    context, blocks = 5000, []
    config = dataclasses.replace(WINDOWED, layer_types=("sliding_attention",))
    drafter = random_drafter(config, dtype=torch.float64, context=LAST)
    edge = context - WINDOW  # row 0 does not see this position any more
    for changed in (None, edge, edge + 1, edge + 5):
        f = features[:context].clone()
        if changed is not None:
            f[changed] *= -1
        slot = DrafterState(config, LAST, dtype=torch.float64).slot()
        drafter.extend(f, slot)
        blocks.append(drafter._block(target, 3, slot, drafter.config.block_size))
    plain, *others = blocks
    moved = [[not torch.equal(a, b) for a, b in zip(plain, o, strict=True)] for o in others]
    assert moved == [[i < n for i in range(16)] for n in (0, 1, 5)]
