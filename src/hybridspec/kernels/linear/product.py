"""Products of at most 16 rows as one Triton kernel, with the norms around them.

A program owns some columns of the result and walks its part of K in order: a row's result depends
neither on the other rows nor on how many there are. The tile has 16 rows; those beyond the tokens
at hand are computed from whatever lies there and mean nothing.
"""

from __future__ import annotations

from dataclasses import replace

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace, is_last
from hybridspec.kernels.linear.config import GROUP, ROWS, ProductConfig
from hybridspec.kernels.linear.norm import Next, Normed, hand_on, load_squares, scale_of


@triton.jit
def finish(  # type: ignore[no-untyped-def]
    acc, y, y_row, residual, residual_row, factor, scaled, squares, tile, N,
    ADD: tl.constexpr, NEXT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Store a tile's sums [ROWS, COLS] on top of the residual and leave them for the next norm."""
    row, col = tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
    within = (col < N)[None, :]
    if ADD:
        at = residual + row[:, None] * residual_row + col[None, :]
        acc += tl.load(at, mask=within, other=0.0).to(tl.float32)
    stored = acc.to(y.dtype.element_ty)
    tl.store(y + row[:, None].to(tl.int64) * y_row + col[None, :], stored, mask=within)
    if NEXT:
        hand_on(stored.to(tl.float32), factor, scaled, squares, tile, N, ROWS, COLS)


@triton.jit
def walk(  # type: ignore[no-untyped-def]
    x, w, tile, start, stop, N, K,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Sums [ROWS, COLS] of a tile over K from start (a multiple of DEPTH) to stop."""
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tile * COLS + tl.arange(0, COLS)
    within = (col < N)[:, None]
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for begin in range(start, stop, DEPTH):
        at = begin + inner
        known = (at < K)[None, :]
        weights = w + col[:, None].to(tl.int64) * K + at[None, :]
        b = tl.load(weights, mask=within & known, other=0.0)
        a = tl.load(x + row[:, None] * K + at[None, :], mask=known, other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee")
    return acc


@triton.jit
def _walk_heads(  # type: ignore[no-untyped-def]
    x, w, sums, tile, first, last, eps, N, K, BLOCKS: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """As `walk` over heads of DEPTH values, each scaled by its own norm: the scale multiplies the
    head's sums, so that the tile of x is used as it was loaded. sums [ROWS, heads x BLOCKS]."""
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tile * COLS + tl.arange(0, COLS)
    within = (col < N)[:, None]
    head = tl.arange(0, sums.shape[1]) // BLOCKS
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for step in range(last - first):
        at = (first + step) * DEPTH + inner
        b = tl.load(w + col[:, None].to(tl.int64) * K + at[None, :], mask=within, other=0.0)
        a = tl.load(x + row[:, None] * K + at[None, :])
        part = tl.dot(a, tl.trans(b), input_precision="ieee")
        total = tl.sum(tl.where((head == step)[None, :], sums, 0.0), 1)
        acc += part * tl.rsqrt(total / DEPTH + eps)[:, None]
    return acc


@triton.jit
def _product(  # type: ignore[no-untyped-def]
    x, w, y, y_row, squares, residual, residual_row, factor, scaled, next_squares, parts, arrived,
    eps, N, K,
    NORM: tl.constexpr, BLOCKS: tl.constexpr, SUMS: tl.constexpr, ADD: tl.constexpr,
    NEXT: tl.constexpr, SPLIT: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    tile, part = tl.program_id(0), tl.program_id(1)
    steps = tl.cdiv(K, DEPTH)
    mine = tl.cdiv(steps, SPLIT)
    first = tl.minimum(part * mine, steps)
    last = tl.minimum(first + mine, steps)
    if NORM:  # SUMS: of 16 columns each
        sums = load_squares(squares, K, SUMS, ROWS)
    if BLOCKS > 0:  # SUMS: of this part's heads, BLOCKS each
        row, place = tl.arange(0, ROWS), tl.arange(0, SUMS)
        at = squares + row[:, None] * (steps * BLOCKS) + first * BLOCKS + place[None, :]
        sums = tl.load(at, mask=(place < (last - first) * BLOCKS)[None, :], other=0.0)
        acc = _walk_heads(x, w, sums, tile, first, last, eps, N, K, BLOCKS, ROWS, COLS, DEPTH)
    else:
        acc = walk(x, w, tile, first * DEPTH, last * DEPTH, N, K, ROWS, COLS, DEPTH)
    if SPLIT == 1:
        if NORM:
            acc = acc * scale_of(sums, K, eps)[:, None]
        finish(acc, y, y_row, residual, residual_row, factor, scaled, next_squares, tile, N, ADD,
               NEXT, ROWS, COLS)  # fmt: skip
    else:
        within = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
        size: tl.constexpr = ROWS * COLS
        base = parts + tile * (SPLIT * size) + within
        tl.store(base + part * size, acc)
        if is_last(arrived + tile, SPLIT):
            acc = tl.zeros((ROWS, COLS), tl.float32)
            for i in tl.static_range(SPLIT):
                acc += tl.load(base + i * size, cache_modifier=".cg")
            if NORM:
                acc = acc * scale_of(sums, K, eps)[:, None]
            finish(acc, y, y_row, residual, residual_row, factor, scaled, next_squares, tile, N,
                   ADD, NEXT, ROWS, COLS)  # fmt: skip


def product(
    x: Tensor, w: Tensor, y: Tensor, residual: Tensor | None = None, after: Next | None = None,
    workspace: Workspace | None = None, config: ProductConfig | None = None, *,
    early: bool = False,
) -> None:  # fmt: skip
    """y = x w^T, on top of `residual` where there is one.

    Args:
        x: [16, K], of w's dtype. w: [N, K] fp32, fp16 or bf16. Both contiguous.
        y: [16, N], written. residual: [16, N]; may be y itself. Their rows may lie apart.
        after: the norm that y goes into, if any.
        workspace: for a K split over several programs; without one it is not split.
        early: as in `kernels/early.py`.
    """
    _launch(x, w, y, residual=residual, after=after, workspace=workspace, config=config,
            early=early)  # fmt: skip


def norm_product(
    x: Normed, eps: float, w: Tensor, y: Tensor, workspace: Workspace | None = None,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """y = norm(x) w^T of a stream that its producer left for the norm; the rest as in `product`."""
    _launch(x.scaled, w, y, squares=x.squares, eps=eps, norm=True, workspace=workspace,
            config=config, early=early)  # fmt: skip


def serves(head: int) -> bool:
    """Whether `gated_product` takes heads of this size: one is a step of its loop."""
    return 16 <= head <= 256 and head & (head - 1) == 0


def gated_product(
    gated: Tensor, squares: Tensor, eps: float, w: Tensor, y: Tensor, residual: Tensor,
    after: Next | None = None, workspace: Workspace | None = None,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """The end of a GDN mixer: every head's norm, a product and the residual.

    Args:
        gated: [16, H d] of w's dtype, o times the norm's factor and silu(z), not yet normalised.
        squares: [16, H, blocks] fp32, sums of o^2 that add up to each head's.
        The rest as in `product`, K = H d, for a d that `serves`.
    """
    heads, blocks = squares.shape[1:]
    head = w.shape[1] // heads
    c = replace(config or ProductConfig.choose(*w.shape, head), depth=head)
    _launch(gated, w, y, squares=squares, eps=eps, blocks=blocks, residual=residual, after=after,
            workspace=workspace, config=c, early=early)  # fmt: skip


def _launch(
    x: Tensor, w: Tensor, y: Tensor, *, squares: Tensor | None = None, eps: float = 0.0,
    norm: bool = False, blocks: int = 0, residual: Tensor | None = None, after: Next | None = None,
    workspace: Workspace | None = None, config: ProductConfig | None = None, early: bool = False,
) -> None:  # fmt: skip
    n, k = w.shape
    c = config or ProductConfig.choose(n, k)
    tiles, split = triton.cdiv(n, c.cols), 1 if workspace is None else c.split
    if workspace is not None:
        workspace.check(tiles * split * ROWS * c.cols, tiles)
    sums = triton.cdiv(triton.cdiv(k, c.depth), split) * blocks or triton.cdiv(k, GROUP)
    _product[(tiles, split)](
        x, w, y, y.stride(0), squares, residual, 0 if residual is None else residual.stride(0),
        *(after.pointers() if after else (None,) * 3), *(workspace or (None, None)), eps, n, k,
        norm, blocks, triton.next_power_of_2(sums), residual is not None, after is not None, split,
        ROWS, c.cols, c.depth, early, num_warps=c.warps, num_stages=c.stages,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
