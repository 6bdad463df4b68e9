"""Attention of at most 16 rows over a cache, cut along the cache: one launch.

A program goes through one split of one key head's rows for one tile of queries (some rows, with all
the heads that share the key head) and leaves a part: sums, and the softmax's maximum and total. The
parts are left for `combine`, or else the last of a group of splits adds the group's in order, the
last group those of the groups, and stores the result, gated. Splits lie at fixed rows of the cache,
and what a row does not see adds exactly 0 to it; so its bits depend neither on the number of rows
nor on how they came in rounds.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.attention.config import PAST, AttentionConfig, Cut, Sight
from hybridspec.kernels.attention.ladder import count_of, start_of
from hybridspec.kernels.attention.parts import finish, finite, leave, merge
from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace, is_last
from hybridspec.kernels.sizes import power

CHUNK = 16  # rows of a tile that are added at a time, in registers


@triton.jit
def _walk(  # type: ignore[no-untyped-def]
    q, keys, values, t, head, valid, first, end, start, stop, rows, scale,
    H: tl.constexpr, D: tl.constexpr, RING: tl.constexpr, WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr, M: tl.constexpr, KEYS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Rows start to stop: maximum [M] of the scores times log2 e, total [M], sums [M, COLS]."""
    col = tl.arange(0, COLS)[None, :]
    known = col < D
    query = tl.load(q + (t * H + head)[:, None] * D + col, mask=valid[:, None] & known, other=0.0)
    top, total = tl.full((M,), -float("inf"), tl.float32), tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, COLS), tl.float32)
    for begin in range(start, stop, KEYS):
        row = begin + tl.arange(0, KEYS)
        held = row < rows
        at = row[:, None] * D + col
        key = tl.load(keys + at, mask=held[:, None] & known, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        place = row
        if RING > 0:  # the newest position congruent to the row
            place = row + (end - 1 - row) // RING * RING
        age = (first + t)[:, None] - place[None, :]
        seen = tl.broadcast_to(held[None, :], (M, KEYS))
        if CAUSAL:
            seen = seen & (age >= 0)
        if WINDOW > 0:
            seen = seen & (age < WINDOW)
        scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        base = finite(higher)
        p = tl.exp2(scores - base[:, None])
        keep = tl.exp2(top - base)
        total = tl.fma(total, keep, tl.sum(p, 1))
        value = tl.load(values + at, mask=held[:, None] & known, other=0.0)
        acc = tl.dot(p.to(value.dtype), value, acc * keep[:, None], input_precision="ieee")
        top = higher
    return top, total, acc


@triton.jit
def _attend(  # type: ignore[no-untyped-def]
    q, gate, gate_row, keys, values, head_stride, position, length, out, parts, arrived, scale,
    H: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, RING: tl.constexpr, WINDOW: tl.constexpr,
    CAUSAL: tl.constexpr, GATED: tl.constexpr, ADDS: tl.constexpr, RUNGS: tl.constexpr,
    SPLITS: tl.constexpr, GROUP: tl.constexpr, GROUPS: tl.constexpr, COUNT: tl.constexpr,
    M: tl.constexpr, SHARED: tl.constexpr, TILES: tl.constexpr, KEYS: tl.constexpr,
    COLS: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    tile, kv, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first, w = tl.load(position), tl.load(length)
    end = first + w
    held = end
    if RING > 0:
        held = tl.minimum(end, RING)
    count = count_of(held, RUNGS)
    at = kv.to(tl.int64) * head_stride
    start, stop = start_of(split, RUNGS), tl.minimum(start_of(split + 1, RUNGS), held)
    take_turn(EARLY)
    mine = w - tile * (M // SHARED)  # rows of this tile and of those behind it
    one = kv * TILES + tile
    slots: tl.constexpr = SPLITS + GROUPS
    stats = parts + KV * TILES * M * slots * COLS
    if mine > 0:
        if split < count:
            rows = tl.minimum(mine, M // SHARED)
            m = tl.arange(0, M)
            t, head = tile * (M // SHARED) + m // SHARED, kv * (H // KV) + m % SHARED
            valid = (m // SHARED < rows) & (m % SHARED < H // KV)
            top, total, acc = _walk(
                q, keys + at, values + at, t, head, valid, first, end, start, stop, held,
                scale, H, D, RING, WINDOW, CAUSAL, M, KEYS, COLS,
            )  # fmt: skip
            leave(parts, stats, split, one * M + m, valid, top, total, acc, slots, COLS)
            if ADDS:
                group, groups = split // GROUP, tl.cdiv(count, GROUP)
                base, members = group * GROUP, tl.minimum(GROUP, count - group * GROUP)
                counters = arrived + one * (GROUPS + 1)
                last = is_last(counters + group, members)
                if last & (groups > 1):
                    merge(parts, stats, one, base, members, SPLITS + group, rows,
                          H, KV, M, SHARED, slots, COLS, COUNT, CHUNK)  # fmt: skip
                    last = is_last(counters + GROUPS, groups)
                    base, members = SPLITS, groups
                if last:
                    finish(parts, stats, base, members, out, gate, gate_row, rows, tile, kv,
                           H, KV, D, GATED, M, SHARED, TILES, slots, COLS, COUNT,
                           CHUNK)  # fmt: skip
    elif ADDS and split == 0:
        m = tl.arange(0, M)
        to = out + ((tile * (M // SHARED) + m // SHARED) * H + kv * (H // KV) + m % SHARED) * D
        col = tl.arange(0, COLS)[None, :]
        zero = tl.zeros((M, COLS), out.dtype.element_ty)
        tl.store(to[:, None] + col, zero, mask=(m % SHARED < H // KV)[:, None] & (col < D))


def attend(
    q: Tensor, gate: Tensor | None, keys: Tensor, values: Tensor, position: Tensor, length: Tensor,
    out: Tensor | None, workspace: Workspace, config: AttentionConfig | None = None, *,
    sight: Sight = PAST, early: bool = False,
) -> None:  # fmt: skip
    """Attention of `length` rows over a cache that already holds their own keys.

    Args:
        q: [16, H, D] of the cache's dtype, normed and rotated, contiguous.
        gate: [16, R], rows of the joint projection that begin with q and gate of every head
            [H, 2 D]; rows may lie apart. None: no gate.
        keys, values: [KV, rows, D], alike; key heads may lie apart.
        position, length: [] int32 on the device, P and w <= 16.
        out: [16, H D], written: rows beyond the length are 0. None: parts are left in the
            workspace for `combine`, and there is no need of the gate.
        workspace: of at least `room`.
        sight: what a row sees.
        early: as in `kernels/early.py`; position and length must then not be what the kernel just
            before writes.
    """
    heads, size = q.shape[1:]
    kv, rows = keys.shape[:2]
    if values.stride() != keys.stride() or keys.stride()[1:] != (size, 1):
        raise ValueError("Keys and values must lie alike, their rows one behind the other.")
    c = config or AttentionConfig.choose(heads, kv, size)
    cut = Cut.of(c, heads, kv, size, rows)
    workspace.check(*cut.room())
    _attend[(cut.tiles, kv, cut.splits)](
        q, gate, 0 if gate is None else gate.stride(0), keys, values, keys.stride(0), position,
        length, out, *workspace, size**-0.5 * math.log2(math.e), heads, kv, size,
        rows if sight.ring else 0, sight.window, sight.causal, gate is not None, out is not None,
        c.rungs(), cut.splits, c.group, cut.groups, power(max(c.group, cut.groups)), cut.tile,
        cut.shared, cut.tiles, c.keys, cut.cols, CHUNK, early, num_warps=c.warps,
        num_stages=c.stages, enable_fp_fusion=False, **options(early),
    )  # fmt: skip


def room(
    heads: int, kv: int, size: int, rows: int, config: AttentionConfig | None = None
) -> tuple[int, int]:
    """Parts and counters that a workspace needs for a cache of so many rows:
    `Workspace.empty(device, *room(...))`."""
    c = config or AttentionConfig.choose(heads, kv, size)
    return Cut.of(c, heads, kv, size, rows).room()
