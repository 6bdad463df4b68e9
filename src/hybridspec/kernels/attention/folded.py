"""Attention that makes its round's queries, keys and values itself: one launch, for caches whose
row j is position j.

It leaves the parts that `split.py` would leave after `prepare`, for `combine`. Every program makes
its tile's queries from rows of the joint projection; those whose split has positions of the round
make their keys and values too, and one of them stores these. From the cache only rows before the
round are read, so nobody reads what this launch stores. Those rows are older than the kernel just
before: a program's first step of them is on its way before its turn.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.attention.ahead import ask_for
from hybridspec.kernels.attention.config import PAST, AttentionConfig, Cut, Sight
from hybridspec.kernels.attention.ladder import count_of, start_of
from hybridspec.kernels.attention.parts import finite, leave
from hybridspec.kernels.attention.prepare import Norms, Tables, marked, read_rows, turned
from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS


@triton.jit
def _old(keys, values, begin, stop, D: tl.constexpr, KEYS: tl.constexpr, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """A step's rows of the cache [KEYS, COLS], 0 from the row `stop` on."""
    row, col = begin + tl.arange(0, KEYS), tl.arange(0, COLS)[None, :]
    at, known = row[:, None] * D + col, (row < stop)[:, None] & (col < D)
    return tl.load(keys + at, mask=known, other=0.0), tl.load(values + at, mask=known, other=0.0)


@triton.jit
def _placed(own, cached, new):  # type: ignore[no-untyped-def]
    """A step's rows [KEYS, COLS]: of the round [ROWS, COLS] where new, else of the cache. Of the
    round, row i is the position that is i modulo ROWS, as row i + n ROWS of a step is."""
    times: tl.constexpr = cached.shape[0] // own.shape[0]
    wide = tl.broadcast_to(own[None, :, :], (times, own.shape[0], own.shape[1]))
    return tl.where(new[:, None], tl.reshape(wide, cached.shape), cached)


@triton.jit
def _sees(at, row, end, WINDOW: tl.constexpr, CAUSAL: tl.constexpr):  # type: ignore[no-untyped-def]
    """Which of the rows [KEYS] before `end` those at the positions `at` [M] see: [M, KEYS]."""
    age = at[:, None] - row[None, :]
    seen = tl.broadcast_to((row < end)[None, :], age.shape)
    if CAUSAL:
        seen = seen & (age >= 0)
    if WINDOW > 0:
        seen = seen & (age < WINDOW)
    return seen


@triton.jit
def _step(scores, value, top, total, acc):  # type: ignore[no-untyped-def]
    """A step's scores [M, KEYS] times log2 e and values [KEYS, COLS] join the sums."""
    higher = tl.maximum(top, tl.max(scores, 1))
    base = finite(higher)
    p = tl.exp2(scores - base[:, None])
    keep = tl.exp2(top - base)
    total = tl.fma(total, keep, tl.sum(p, 1))
    acc = tl.dot(p.to(value.dtype), value, acc * keep[:, None], input_precision="ieee")
    return higher, total, acc


@triton.jit
def _attend_rows(  # type: ignore[no-untyped-def]
    qkv, qkv_row, q_factor, k_factor, eps, cos, sin, keys, values, head_stride, position, length,
    parts, scale,
    H: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, R: tl.constexpr, STEP: tl.constexpr,
    WINDOW: tl.constexpr, CAUSAL: tl.constexpr, RUNGS: tl.constexpr, SLOTS: tl.constexpr,
    M: tl.constexpr, SHARED: tl.constexpr, TILES: tl.constexpr, KEYS: tl.constexpr,
    AHEAD: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    first, w = tl.load(position), tl.load(length)
    end = first + w
    tiles = tl.cdiv(w, M // SHARED)
    items = tiles * KV * count_of(end, RUNGS)
    if tl.program_id(0) >= items:
        take_turn(EARLY)
    for item in tl.range(tl.program_id(0), items, tl.num_programs(0), disable_licm=True):
        tile, kv, split = item % tiles, item // tiles % KV, item // tiles // KV
        start = start_of(split, RUNGS)
        stop = tl.minimum(start_of(split + 1, RUNGS), end)
        rows = w - tile * (M // SHARED)  # of this tile and of those behind it
        m, col = tl.arange(0, M), tl.arange(0, COLS)[None, :]
        t, head = tile * (M // SHARED) + m // SHARED, kv * (H // KV) + m % SHARED
        valid = (m // SHARED < rows) & (m % SHARED < H // KV)
        own_keys = keys + kv.to(tl.int64) * head_stride
        own_values = values + kv.to(tl.int64) * head_stride
        known = tl.minimum(stop, first)  # rows from here on are the round's
        key, value = _old(own_keys, own_values, start, known, D, KEYS, COLS)
        last = tl.minimum(start + KEYS + AHEAD, known)
        ask_for(own_keys, own_values, start + KEYS, last, D, AHEAD > 0)
        take_turn(EARLY)
        x = qkv + (t * qkv_row + head * STEP)[:, None]
        a, b = read_rows(x, valid, D, R, COLS)
        i = (tl.arange(0, ROWS) - first) & (ROWS - 1)
        real = (i < w) & (first + i < stop)
        k = qkv + H * STEP + kv * D + (i * qkv_row)[:, None]
        k_a, k_b = read_rows(k, real, D, R, COLS)
        query = turned(a, b, q_factor, eps, cos, sin, first + t, valid, D, R).to(a.dtype)
        v = tl.load(k + KV * D + col, mask=real[:, None] & (col < D), other=0.0)
        key_rows = turned(k_a, k_b, k_factor, eps, cos, sin, first + i, real, D, R)
        own_key, own_value = marked(key_rows, v)
        own_key, own_value = own_key.to(v.dtype), own_value.to(v.dtype)
        if (tile == 0) & (stop > first):
            to = (first + i)[:, None] * D + col
            mine = (real & (first + i >= start))[:, None] & (col < D)
            tl.store(own_keys + to, own_key, mask=mine)
            tl.store(own_values + to, own_value, mask=mine)
        top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
        acc = tl.zeros((M, COLS), tl.float32)
        for begin in tl.range(start, stop, KEYS, disable_licm=True):
            row = begin + tl.arange(0, KEYS)
            if begin + KEYS > first:
                new = (row >= first) & (row < end)
                key, value = _placed(own_key, key, new), _placed(own_value, value, new)
            scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
            after = _old(own_keys, own_values, begin + KEYS, known, D, KEYS, COLS)
            scores = tl.where(_sees(first + t, row, end, WINDOW, CAUSAL), scores, -float("inf"))
            top, total, acc = _step(scores, value, top, total, acc)
            key, value = after
        slot = (kv * TILES + tile) * SLOTS + split
        stats = parts + KV * TILES * SLOTS * M * COLS
        leave(parts, stats, slot, m, valid, top, total, acc, M, COLS)


def attend_rows(
    qkv: Tensor, norms: Norms, rope: Tables, keys: Tensor, values: Tensor, position: Tensor,
    length: Tensor, heads: int, workspace: Workspace, config: AttentionConfig | None = None, *,
    gated: bool = False, sight: Sight = PAST, early: bool = False,
) -> None:  # fmt: skip
    """`prepare` and `attend` in one: rows P.. of the cache are written, parts left for `combine`.

    Args:
        qkv, norms, rope, keys, values, position, length, gated: as in `prepare`, of one layer with
            queries.
        heads: H.
        workspace, config, sight: as in `attend`; the cache is no ring.
        early: as in `kernels/early.py`; of all these, qkv and the workspace alone may be what the
            kernel just before writes.

    Raises:
        ValueError: the cache is a ring, or its keys and values lie otherwise.
    """
    kv, rows, size = keys.shape
    if sight.ring:
        raise ValueError("A ring's rows of a round are not found here: use `prepare` and `attend`.")
    if values.stride() != keys.stride() or keys.stride()[1:] != (size, 1):
        raise ValueError("Keys and values must lie alike, their rows one behind the other.")
    c = config or AttentionConfig.fold(heads, kv, size)
    cut = Cut.of(c, heads, kv, size, rows)
    workspace.check(*cut.room())
    _attend_rows[(min(c.programs, cut.tiles * kv * cut.splits),)](
        qkv, qkv.stride(0), norms.q, norms.k, norms.eps, *rope, keys, values, keys.stride(0),
        position, length, workspace.parts, size**-0.5 * math.log2(math.e), heads, kv, size,
        rope.cos.shape[-1], 2 * size if gated else size, sight.window, sight.causal, c.rungs(),
        cut.slots, cut.tile, cut.shared, cut.tiles, c.keys, c.asked(size, early), ROWS, cut.cols,
        early,
        num_stages=1, enable_fp_fusion=False, **c.options(early), **options(early),
    )  # fmt: skip
