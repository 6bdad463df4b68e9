"""The experts of a block for at most 16 tokens as two Triton kernels, after `route.py`.

Time follows the number of distinct experts: every one of them sees all 16 rows, with weight 0 where
a token did not choose it, and is read once. Sums run over experts in ascending order.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace, is_last
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.linear.norm import Next, Normed, load_squares, scale_of
from hybridspec.kernels.linear.product import finish
from hybridspec.kernels.linear.up import walk_pair
from hybridspec.kernels.moe.config import ExpertConfig
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed


@triton.jit
def _share(ids, shares, expert, TOP, TOPS: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Each token's weight of an expert: 0 where it was not chosen."""
    row, turn = tl.arange(0, ROWS), tl.arange(0, TOPS)
    at, known = row[:, None] * TOP + turn[None, :], (turn < TOP)[None, :]
    chosen = tl.load(ids + at, mask=known, other=-1) == expert
    return tl.sum(tl.where(chosen, tl.load(shares + at, mask=known, other=0.0), 0.0), 1)


@triton.jit
def _up(  # type: ignore[no-untyped-def]
    x, squares, eps, gate_up, shared_gate_up, ids, shares, opening, distinct, before, h, shared_h,
    E, K, WIDTH, SHARED, TOP,
    TOPS: tl.constexpr, SUMS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    place = tl.program_id(1) - 1  # -1 is the shared expert
    shared = place < 0
    if place >= tl.load(before + E):
        return
    width = tl.where(shared, SHARED, WIDTH)
    if tl.program_id(0) * COLS >= width:
        return
    row = tl.arange(0, ROWS)
    base, target, share = shared_gate_up, shared_h, tl.load(opening + row)
    if not shared:
        expert = tl.load(distinct + place)
        base = gate_up + expert.to(tl.int64) * 2 * WIDTH * K
        target = h + place.to(tl.int64) * ROWS * WIDTH
        share = _share(ids, shares, expert, TOP, TOPS, ROWS)
    sums = load_squares(squares, K, SUMS, ROWS)  # used after the loop
    g, u = walk_pair(x, base, tl.program_id(0), width, K, ROWS, COLS, DEPTH)
    scale = scale_of(sums, K, eps)[:, None]
    g, u = g * scale, u * scale
    y = g / (1.0 + tl.exp(-g)) * u * share[:, None]
    y = tl.where((share == 0.0)[:, None], 0.0, y)  # a row that means nothing may hold a NaN
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    at = row[:, None] * width + col[None, :]
    tl.store(target + at, y.to(h.dtype.element_ty), mask=(col < width)[None, :])


@triton.jit
def _bounds(before, group, E, GROUPS: tl.constexpr):  # type: ignore[no-untyped-def]
    """First and last place (excluded) of the experts of a group: ids from group E / GROUPS on."""
    return tl.load(before + group * E // GROUPS), tl.load(before + (group + 1) * E // GROUPS)


@triton.jit
def _sum_group(  # type: ignore[no-untyped-def]
    h, shared_h, down, shared_down, distinct, tile, first, last, shared, K, WIDTH, SHARED,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Sums [ROWS, COLS] of the experts in places first..last-1, or of the shared one: one loop over
    all their steps, so that loads never run dry."""
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tile * COLS + tl.arange(0, COLS)
    within = (col < K)[:, None]
    width = tl.where(shared, SHARED, WIDTH)
    w, inputs = shared_down, shared_h
    if not shared:
        w, inputs = down, h
    acc = tl.zeros((ROWS, COLS), tl.float32)
    steps = tl.cdiv(width, DEPTH)
    expert = tl.where(shared, 0, tl.load(distinct + first))
    for step in range((last - first) * steps):
        place = first + step // steps
        at = (step % steps) * DEPTH + inner
        known = (at < width)[None, :]
        weights = w + expert.to(tl.int64) * K * WIDTH + col[:, None] * width + at[None, :]
        b = tl.load(weights, mask=within & known, other=0.0)
        rows = inputs + place.to(tl.int64) * ROWS * WIDTH + row[:, None] * width + at[None, :]
        a = tl.load(rows, mask=known, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee")
        # the id for the next step is on its way during this one
        expert = tl.where(shared, 0, tl.load(distinct + first + (step + 1) // steps))
    return acc


@triton.jit
def _down(  # type: ignore[no-untyped-def]
    h, shared_h, down, shared_down, distinct, before, x, x_row, y, y_row, factor, scaled, squares,
    parts, arrived, E, K, WIDTH, SHARED,
    NEXT: tl.constexpr, GROUPS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    tile, group = tl.program_id(0), tl.program_id(1) - 1  # -1 is the shared expert
    shared = group < 0
    start, stop = _bounds(before, tl.maximum(group, 0), E, GROUPS)
    first, last = tl.where(shared, 0, start), tl.where(shared, 1, stop)
    size: tl.constexpr = ROWS * COLS
    base = parts + tile * ((1 + GROUPS) * size)
    base += tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    if last > first:
        acc = _sum_group(h, shared_h, down, shared_down, distinct, tile, first, last, shared, K,
                         WIDTH, SHARED, ROWS, COLS, DEPTH)  # fmt: skip
        tl.store(base + (1 + group) * size, acc)
    if is_last(arrived + tile, 1 + GROUPS):
        acc = tl.zeros((ROWS, COLS), tl.float32) + tl.load(base, cache_modifier=".cg")
        for i in tl.static_range(GROUPS):
            start, stop = _bounds(before, i, E, GROUPS)
            there = tl.full((ROWS, COLS), 1, tl.int32) * (stop - start) > 0  # else never written
            part = base + (1 + i) * size
            acc += tl.load(part, mask=there, other=0.0, cache_modifier=".cg")
        finish(acc, y, y_row, x, x_row, factor, scaled, squares, tile, K, True, NEXT, ROWS, COLS)


def up(
    x: Normed, eps: float, w: Weights, routed: Routed, h: Tensor, shared_h: Tensor,
    config: ExpertConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """silu(gate) * up of the norm of x, times each token's weight, of every distinct expert.

    Args:
        x: the residual stream [16, K], left for this block's norm.
        w: contiguous, one dtype.
        h: [places, 16, I] and shared_h: [16, S] of w's dtype, written.
        early: as in `kernels/early.py`.
    """
    experts, k, i = w.down.shape
    s = w.shared_down.shape[1]
    c = config or ExpertConfig.up(max(i, s), k)
    top = routed.ids.shape[1]
    _up[(triton.cdiv(max(i, s), c.cols), 1 + routed.places)](
        *x, eps, w.gate_up, w.shared_gate_up, *routed[1:-1], h, shared_h, experts, k, i, s, top,
        triton.next_power_of_2(top), triton.next_power_of_2(x.squares.shape[0]), ROWS, c.cols,
        c.depth, early,
        num_warps=c.warps, num_stages=c.stages, enable_fp_fusion=False, **options(early),
    )  # fmt: skip


def down(
    h: Tensor, shared_h: Tensor, w: Weights, routed: Routed, x: Tensor, y: Tensor,
    workspace: Workspace, after: Next | None = None, config: ExpertConfig | None = None, *,
    early: bool = False,
) -> None:  # fmt: skip
    """y = x + the shared expert's and all distinct experts' second products.

    Experts are summed in ascending order within groups of ids, and groups in ascending order: a
    token's sum does not depend on which other experts there are.

    Args:
        x: [16, K], the residual stream itself. y: [16, K], written; may be x. Rows may lie apart.
        after: the norm that y goes into, if any.
        The rest as in `up`.
    """
    experts, k, i = w.down.shape
    c = config or ExpertConfig.down(k, i, experts)
    tiles = triton.cdiv(k, c.cols)
    workspace.check(tiles * (1 + c.groups) * ROWS * c.cols, tiles)
    _down[(tiles, 1 + c.groups)](
        h, shared_h, w.down, w.shared_down, routed.distinct, routed.before, x, x.stride(0), y,
        y.stride(0), *(after.pointers() if after else (None,) * 3), *workspace, experts, k, i,
        w.shared_down.shape[1], after is not None, c.groups, ROWS, c.cols, c.depth, early,
        num_warps=c.warps, num_stages=c.stages, enable_fp_fusion=False, **options(early),
    )  # fmt: skip
