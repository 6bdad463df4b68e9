"""Parts of a softmax's sums: left in memory, added in order, and made the result.

A tile of M rows has S slots a row: of every part the sums, [M, S, COLS], and in `stats` the maximum
of its scores and its total, [M, 2, S]. A row's parts stand together, as they are read. What a row
has not seen has the maximum -inf, the total 0 and sums of 0: it adds exactly 0.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def finite(top):  # type: ignore[no-untyped-def]
    """A maximum to subtract: -inf, where nothing was seen, would give inf - inf."""
    return tl.where(top == -float("inf"), 0.0, top)


@triton.jit
def _add(  # type: ignore[no-untyped-def]
    parts, stats, slot, count, m, valid, S: tl.constexpr, COLS: tl.constexpr, COUNT: tl.constexpr
):  # fmt: skip
    """`count` parts from a slot on of the rows m, counted through all tiles, added in order:
    maximum, total, sums."""
    col = tl.arange(0, COLS)[None, :]
    part = tl.arange(0, COUNT)
    at = stats + m[None, :] * (2 * S) + (slot + part)[:, None]
    mask = (part < count)[:, None] & valid[None, :]
    top = tl.max(tl.load(at, mask=mask, other=-float("inf"), cache_modifier=".cg"), 0)
    base = finite(top)
    total = base * 0.0
    acc = tl.zeros((m.shape[0], COLS), tl.float32)
    for i in tl.range(count, loop_unroll_factor=4):
        own = stats + m * (2 * S) + slot + i
        part_top = tl.load(own, mask=valid, other=-float("inf"), cache_modifier=".cg")
        part_total = tl.load(own + S, mask=valid, other=0.0, cache_modifier=".cg")
        sums = parts + (m * S + slot + i)[:, None] * COLS + col
        part_acc = tl.load(sums, mask=valid[:, None], other=0.0, cache_modifier=".cg")
        share = tl.exp2(part_top - base)
        total = tl.fma(share, part_total, total)
        acc = tl.fma(tl.broadcast_to(share[:, None], part_acc.shape), part_acc, acc)
    return top, total, acc


@triton.jit
def leave(parts, stats, slot, m, valid, top, total, acc, S: tl.constexpr, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store a part of the rows m, counted through all tiles."""
    at = parts + (m * S + slot)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(at, acc, mask=valid[:, None])
    own = stats + m * (2 * S) + slot
    tl.store(own, top, mask=valid)
    tl.store(own + S, total, mask=valid)


@triton.jit
def merge(  # type: ignore[no-untyped-def]
    parts, stats, one, slot, count, to, rows, H: tl.constexpr, KV: tl.constexpr, M: tl.constexpr,
    SHARED: tl.constexpr, S: tl.constexpr, COLS: tl.constexpr, COUNT: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """`count` parts of a tile from a slot on become one, in the slot `to`."""
    for chunk in range(tl.cdiv(rows * SHARED, CHUNK)):
        m = chunk * CHUNK + tl.arange(0, CHUNK)
        valid = (m // SHARED < rows) & (m % SHARED < H // KV)
        own = one * M + m
        top, total, acc = _add(parts, stats, slot, count, own, valid, S, COLS, COUNT)
        leave(parts, stats, to, own, valid, top, total, acc, S, COLS)


@triton.jit
def finish(  # type: ignore[no-untyped-def]
    parts, stats, slot, count, out, gate, gate_row, rows, tile, kv,
    H: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, GATED: tl.constexpr, M: tl.constexpr,
    SHARED: tl.constexpr, TILES: tl.constexpr, S: tl.constexpr, COLS: tl.constexpr,
    COUNT: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The result of a tile from `count` parts: gated, and 0 in its rows beyond the first `rows`."""
    col = tl.arange(0, COLS)[None, :]
    for chunk in range(M // CHUNK):
        m = chunk * CHUNK + tl.arange(0, CHUNK)
        t, head = tile * (M // SHARED) + m // SHARED, kv * (H // KV) + m % SHARED
        there = (m % SHARED < H // KV)[:, None] & (col < D)
        to = out + (t * H + head)[:, None] * D + col
        o = tl.zeros((CHUNK, COLS), tl.float32)
        if chunk * CHUNK < rows * SHARED:
            valid = (m // SHARED < rows) & (m % SHARED < H // KV)
            own = (kv * TILES + tile) * M + m
            _, total, acc = _add(parts, stats, slot, count, own, valid, S, COLS, COUNT)
            o = acc / tl.where(valid, total, 1.0)[:, None]
            if GATED:
                at = gate + (t * gate_row)[:, None] + (2 * head + 1)[:, None] * D + col
                g = tl.load(at, mask=valid[:, None] & (col < D), other=0.0).to(tl.float32)
                o = o / (1.0 + tl.exp(-g))
        tl.store(to, o.to(out.dtype.element_ty), mask=there)
