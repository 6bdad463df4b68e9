"""Parts of a softmax's sums become the result: one launch after the one that left them.

A program has some columns of one row and head. What it needs of all parts is on its way at once, a
few dozen parts at a time, and each has its fixed place in the sum; a part beyond the context, or of
which the row has seen nothing, adds exactly 0 there. So a row's bits depend on its parts alone.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.attention.config import PAST, AttentionConfig, CombineConfig, Cut, Sight
from hybridspec.kernels.attention.ladder import count_of
from hybridspec.kernels.attention.parts import finite
from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sizes import power


@triton.jit
def _read(  # type: ignore[no-untyped-def]
    sums, stats, begin, count, WIDE: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """Some parts of a row, those from `begin` on: maxima [PARTS] and sums [PARTS, COLS]."""
    part = begin + tl.arange(0, PARTS)
    known = part < count
    top = tl.load(stats + part, mask=known, other=-float("inf"), cache_modifier=".cg")
    at = (part * WIDE)[:, None] + sums[None, :]
    return top, tl.load(at, mask=known[:, None], other=0.0, cache_modifier=".cg")


@triton.jit
def _add(  # type: ignore[no-untyped-def]
    sums, stats, count, SLOTS: tl.constexpr, WIDE: tl.constexpr, COUNT: tl.constexpr,
    PARTS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """A row's sums [COLS] over `count` parts, by their total. Part i's sums lie i WIDE floats
    behind the pointers `sums` [COLS], its maximum i behind `stats` and its total SLOTS further."""
    part = tl.arange(0, COUNT)
    own = stats + part
    tops = tl.load(own, mask=part < count, other=-float("inf"), cache_modifier=".cg")
    totals = tl.load(own + SLOTS, mask=part < count, other=0.0, cache_modifier=".cg")
    top, part_sums = _read(sums, stats, 0, count, WIDE, PARTS)
    base = finite(tl.max(tops, 0))
    total = tl.sum(tl.exp2(tops - base) * totals, 0)
    acc = tl.zeros((COLS,), tl.float32)
    for begin in range(0, count, PARTS):
        after = _read(sums, stats, begin + PARTS, count, WIDE, PARTS)
        acc += tl.sum(tl.exp2(top - base)[:, None] * part_sums, 0)
        top, part_sums = after
    return acc / total


@triton.jit
def _combine(  # type: ignore[no-untyped-def]
    parts, gate, gate_row, position, length, out,
    H: tl.constexpr, KV: tl.constexpr, D: tl.constexpr, RING: tl.constexpr, GATED: tl.constexpr,
    RUNGS: tl.constexpr, SLOTS: tl.constexpr, COUNT: tl.constexpr, M: tl.constexpr,
    SHARED: tl.constexpr, TILES: tl.constexpr, WIDE: tl.constexpr, PARTS: tl.constexpr,
    COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    head, t = tl.program_id(1), tl.program_id(2)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    w = tl.load(length)
    held = tl.load(position) + w
    if RING > 0:
        held = tl.minimum(held, RING)
    real, o = (col < D) & (t < w), tl.zeros((COLS,), tl.float32)
    if GATED:
        at = gate + t * gate_row + (2 * head + 1) * D + col
        under = 1.0 + tl.exp(-tl.load(at, mask=real, other=0.0).to(tl.float32))
    take_turn(EARLY)
    if t < w:
        rows: tl.constexpr = M // SHARED  # of a tile
        one = head // (H // KV) * TILES + t // rows
        m = one * M + t % rows * SHARED + head % (H // KV)
        stats = parts + KV * TILES * M * SLOTS * WIDE + m * (2 * SLOTS)
        sums = parts + m * (SLOTS * WIDE) + col
        count = count_of(held, RUNGS)
        o = _add(sums, stats, count, SLOTS, WIDE, COUNT, PARTS, COLS)
        if GATED:
            o = o / under
    tl.store(out + (t * H + head) * D + col, o.to(out.dtype.element_ty), mask=col < D)


def combine(
    gate: Tensor | None, keys: Tensor, position: Tensor, length: Tensor, out: Tensor,
    workspace: Workspace, config: AttentionConfig | None = None,
    own: CombineConfig | None = None, *, sight: Sight = PAST, early: bool = False,
) -> None:  # fmt: skip
    """The result of attention from parts in the workspace.

    Args:
        gate, keys, position, length, workspace, config, sight: as of the launch that left them. Of
            keys [KV, rows, D] only the shape is used.
        out: [16, H D], written: rows beyond the length are 0.
        own: how this kernel is cut.
        early: as in `kernels/early.py`; position, length and the gate must then not be what the
            kernel just before writes.
    """
    kv, rows, size = keys.shape
    heads = out.shape[1] // size
    c, o = config or AttentionConfig.choose(heads, kv, size), own or CombineConfig()
    cut = Cut.of(c, heads, kv, size, rows)
    workspace.check(*cut.room())
    cols = min(o.cols, cut.cols)
    _combine[(triton.cdiv(size, cols), heads, ROWS)](
        workspace.parts, gate, 0 if gate is None else gate.stride(0), position, length, out, heads,
        kv, size, rows if sight.ring else 0, gate is not None, c.rungs(), cut.slots,
        power(cut.splits), cut.tile, cut.shared, cut.tiles, cut.cols, o.parts, cols, early,
        num_warps=o.warps, num_stages=1, enable_fp_fusion=False, **options(early),
    )  # fmt: skip
