"""Calls of every kernel's wrapper on tensors without memory, at the sizes of real models."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from sampling_calls import sampling
from signal_calls import run
from torch import Tensor

from hybridspec.kernels.accept.accept import Round, accept
from hybridspec.kernels.attention import split
from hybridspec.kernels.attention.config import Sight
from hybridspec.kernels.attention.forms import Form
from hybridspec.kernels.attention.forms import attention as attention_of
from hybridspec.kernels.attention.prepare import Norms, Tables
from hybridspec.kernels.attention.prepare import prepare as rotate
from hybridspec.kernels.gdn import baselines, block, exact, fused
from hybridspec.kernels.gdn.baselines import Ring
from hybridspec.kernels.gdn.columns import Spread
from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.kernels.head.config import HeadConfig
from hybridspec.kernels.head.head import Answer, Tiles, head
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.length import length
from hybridspec.kernels.length.rule import Rule
from hybridspec.kernels.linear import product
from hybridspec.kernels.linear.norm import Next, Normed, embed, prepare
from hybridspec.kernels.linear.up import up_product
from hybridspec.kernels.moe import experts, naive
from hybridspec.kernels.moe.route import Routed, route

HALF, META, WIDE = torch.bfloat16, "meta", torch.float64
# key heads, value heads, dk, dv
GDN = {"pair": (4, 8, 32, 32), "35b": (16, 32, 128, 128), "122b": (16, 64, 128, 128)}


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def gdn(key_heads: int, value_heads: int, dk: int, dv: int) -> None:
    sizes = (key_heads, value_heads, dk, dv)
    q, k = empty(16, key_heads, dk), empty(16, key_heads, dk)
    v, o, z = (empty(16, value_heads, dv) for _ in range(3))
    beta, alpha = empty(16, value_heads), empty(16, value_heads)
    state, length = empty(30, value_heads, dv, dk), empty(dtype=torch.int32)
    exact.verify(q, k, v, beta, alpha, state[0], o, z, length)
    exact.commit(state, *(t.expand(30, *t.shape) for t in (z, k, alpha)), length)
    block.verify(q, k, v, beta, alpha, state[0], o, z, length)
    channels = 2 * key_heads * dk + value_heads * dv
    raw = empty(30, 19, channels + value_heads * (dv + 2), dtype=HALF)
    gates = fused.Gates(empty(4, channels), empty(value_heads), empty(value_heads), empty(dv))
    squares = empty(16, value_heads, fused.blocks(dv))
    fused.verify(raw[0], gates, state[0], v.to(HALF), squares, z, k, alpha, length)
    fused.advance(raw, channels, length)
    room = Spread.empty(*sizes, META)
    block.fused(raw[0], gates, state[0], v.to(HALF), squares, z, k, beta, alpha, length, room)
    states, ring = empty(30, 16, value_heads, dv, dk), Ring.empty(30, *sizes, META)
    made = (raw[0], gates, state[0], v.to(HALF), squares)
    baselines.per_token_fused(*made, states[0], length)
    baselines.per_token_commit(state, states, length)
    baselines.replay_fused(*made, ring.layer(0), length, length)
    baselines.replay_commit(state, ring, length, length, length)


def spilling() -> None:
    """A state of 32 KiB in the registers of one warp: it must spill, or the reports say nothing."""
    key, value, gate = empty(16, 16, 128), empty(16, 32, 128), empty(16, 32)
    state, length = empty(32, 128, 128), empty(dtype=torch.int32)
    config = GDNConfig(64, 1)
    exact.verify(key, key, value, gate, gate, state, value, value, length, config)


# hidden, value heads, dv, rows of the joint GDN projection, vocabulary
LINEAR = {
    "pair": (320, 8, 32, 784, 8192),
    "35b": (2048, 32, 128, 12352, 248320),
    "122b": (3072, 64, 128, 20608, 248320),
}


def linear(hidden: int, heads: int, size: int, joint: int, vocabulary: int) -> None:
    x, space = empty(16, hidden, dtype=HALF), Workspace.empty(META)
    after = Next(empty(hidden), Normed.empty(hidden, HALF, META))
    embed(empty(16, dtype=torch.int64), empty(vocabulary, hidden, dtype=HALF), x, after)
    prepare(x, after)
    for rows in (joint, vocabulary):
        w, y = empty(rows, hidden, dtype=HALF), empty(16, rows, dtype=HALF)
        product.norm_product(after.normed, 1e-6, w, y)
        product.product(x, w, y)
    gated, squares = empty(16, heads * size, dtype=HALF), empty(16, heads, fused.blocks(size))
    w = empty(hidden, heads * size, dtype=HALF)
    product.gated_product(gated, squares, 1e-6, w, x, x, after, space)
    product.product(gated, w, x, x, after, space)


# hidden, inner size of the MLP, taps, layers, key heads, head size
DRAFTER = {
    "pair": (320, 280, 4, 3, 4, 32),
    "35b": (2048, 6144, 8, 5, 8, 128),
    "122b": (3072, 9216, 8, 5, 8, 128),
}


def drafter(hidden: int, inner: int, taps: int, layers: int, kv: int, size: int) -> None:
    """What a drafter launches that a target does not: its MLP, and many layers' context."""
    x, space = empty(16, hidden, dtype=HALF), Workspace.empty(META)
    after = Next(empty(hidden), Normed.empty(hidden, HALF, META))
    h = empty(16, inner, dtype=HALF)
    up_product(after.normed, 1e-6, empty(2 * inner, hidden, dtype=HALF), h)
    product.product(h, empty(hidden, inner, dtype=HALF), x, x, after, space)
    features, fc = (empty(n, taps * hidden, dtype=HALF) for n in (16, hidden))
    product.product(features, fc, x, None, after, space)
    rows = empty(16, layers * 2 * kv * size, dtype=HALF)
    keys, values = (empty(layers, kv, 4112, size, dtype=HALF) for _ in range(2))
    k, table = empty(layers, size), empty(4112, 1, size)
    at = (empty(dtype=torch.int32), empty(dtype=torch.int32))
    rotate(rows, Norms(k, k, 1e-6), Tables(table, table), keys, values, *at, None, ring=True)


# hidden, experts, experts a token, their width, the shared expert's
MOE = {
    "pair": (320, 32, 4, 16, 192),
    "35b": (2048, 256, 8, 512, 512),
    "122b": (3072, 256, 8, 1024, 1024),
}


def moe(hidden: int, count: int, top: int, width: int, shared: int) -> None:
    x, space = empty(16, hidden, dtype=HALF), Workspace.empty(META)
    after = Next(empty(hidden), Normed.empty(hidden, HALF, META))
    shapes = [
        (count + 1, hidden),
        (count, 2 * width, hidden),
        (count, hidden, width),
        (2 * shared, hidden),
        (hidden, shared),
    ]
    w = naive.Weights(*(empty(*shape, dtype=HALF) for shape in shapes))
    routed = Routed.empty(count, top, META)
    h = empty(routed.places, 16, width, dtype=HALF)
    shared_h = empty(16, shared, dtype=HALF)
    route(after.normed, 1e-6, w.router, empty(dtype=torch.int32), routed, space)
    experts.up(after.normed, 1e-6, w, routed, h, shared_h)
    experts.down(h, shared_h, w, routed, x, x, space, after)


# heads, key heads, head size, rotated dimensions, gate, rows of the cache, what a row sees
ATTENTION = {
    "pair": (4, 2, 64, 16, True, 32784, Sight()),
    "pair drafter": (8, 4, 32, 32, False, 1040, Sight(window=1024, ring=True)),
    "35b": (16, 2, 256, 64, True, 32784, Sight()),
    "122b": (32, 2, 256, 64, True, 262160, Sight()),
    "drafter ring": (32, 8, 128, 128, False, 4112, Sight(window=4096, ring=True)),
    "drafter": (32, 8, 128, 128, False, 32784, Sight(causal=False)),
}


def attention(
    heads: int, kv: int, size: int, rotated: int, gated: bool, rows: int, sight: Sight,
) -> None:  # fmt: skip
    qkv = empty(16, (heads * (2 if gated else 1) + 2 * kv) * size, dtype=HALF)
    q, out = empty(16, heads, size, dtype=HALF), empty(16, heads * size, dtype=HALF)
    keys, values = empty(kv, rows, size, dtype=HALF), empty(kv, rows, size, dtype=HALF)
    norms, table = Norms(empty(size), empty(size), 1e-6), empty(rows, 1, rotated)
    at = (empty(dtype=torch.int32), empty(dtype=torch.int32))
    space = Workspace.empty(META, *split.room(heads, kv, size, rows))
    for form, early in itertools.product((Form.JOINED, Form.APART), (False, True)):
        attention_of(qkv, norms, Tables(table, table), keys, values, *at, q, out, space,
                     gated=gated, sight=sight, form=form, early=early)  # fmt: skip


def ends(hidden: int, vocabulary: int, top: int) -> None:
    """The target's head and the drafter's, the lengths of a round and its end."""
    answer, w = Answer.empty(META), empty(vocabulary, hidden, dtype=HALF)
    x, logits = Normed.empty(hidden, HALF, META), empty(16, vocabulary)
    inputs, anchor = empty(16, dtype=torch.int64), empty(1, dtype=torch.int64)
    for joined in (False, True):
        config = HeadConfig(64, 128, joined=joined)
        tiles = Tiles.empty(vocabulary, hidden, META, config)
        head(x, 1e-6, w, tiles, answer, config=config)
        head(x, 1e-6, w, tiles, answer, logits, anchor, config, scored=True)
    lengths, state = length.Lengths.empty(META), Round.empty(META)
    numbers = [empty(*s, dtype=WIDE) for s in ((15, 104), (15, 104), (6,), (17,), (3,))]
    tables = empty(16, dtype=WIDE), empty(16, top + 1, dtype=WIDE)
    rules = [
        Rule(15, 5),
        Rule(15, ratio=True, cost=numbers[3]),
        Rule(15, 0, False, 1, *numbers, *tables),
    ]
    for rule in rules:
        length.select(rule, answer.confidence, answer.entropy, state.room, lengths)
    length.correct(rules[-1], empty(16, top, dtype=torch.int32), lengths)
    accept(inputs, answer.tokens, lengths.w, empty(16, dtype=torch.int64), state)


CALLS: dict[str, Callable[[], None]] = {
    **{f"gdn {name}": lambda shape=shape: gdn(*shape) for name, shape in GDN.items()},
    **{f"linear {name}": lambda shape=shape: linear(*shape) for name, shape in LINEAR.items()},
    **{
        f"attention {name}": lambda shape=shape: attention(*shape)
        for name, shape in ATTENTION.items()
    },
    **{f"drafter {name}": lambda shape=shape: drafter(*shape) for name, shape in DRAFTER.items()},
    "ends pair": lambda: ends(320, 8192, 4),
    "ends 35b": lambda: ends(2048, 248320, 8),
    "run": run,
    "sampling pair": lambda: sampling(8192),
    "sampling 35b": lambda: sampling(248320),
    **{f"moe {name}": lambda shape=shape: moe(*shape) for name, shape in MOE.items()},
}
CONTROL = {"control": spilling}
