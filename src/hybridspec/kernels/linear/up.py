"""The first half of a gated MLP for at most 16 rows: norm, gate and up, silu(gate) * up, as one
Triton kernel. A program owns some columns of gate and the same of up."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS, ProductConfig
from hybridspec.kernels.linear.norm import Normed, load_squares, scale_of


@triton.jit
def walk_pair(  # type: ignore[no-untyped-def]
    x, w, tile, width, K, ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr
):  # fmt: skip
    """Sums [ROWS, COLS] of a tile of gate and of the same tile of up; w [2 width, K]."""
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tile * COLS + tl.arange(0, COLS)
    within = (col < width)[:, None]
    g, u = tl.zeros((ROWS, COLS), tl.float32), tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, DEPTH):
        at = start + inner
        known = (at < K)[None, :]
        mask = within & known
        w_gate = tl.load(w + col[:, None] * K + at[None, :], mask=mask, other=0.0)
        w_up = tl.load(w + (width + col)[:, None] * K + at[None, :], mask=mask, other=0.0)
        a = tl.load(x + row[:, None] * K + at[None, :], mask=known, other=0.0)
        g = tl.dot(a, tl.trans(w_gate), g, input_precision="ieee")
        u = tl.dot(a, tl.trans(w_up), u, input_precision="ieee")
    return g, u


@triton.jit
def _up(  # type: ignore[no-untyped-def]
    x, squares, eps, w, y, N, K, SUMS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    tile = tl.program_id(0)
    sums = load_squares(squares, K, SUMS, ROWS)  # used after the loop
    g, u = walk_pair(x, w, tile, N, K, ROWS, COLS, DEPTH)
    scale = scale_of(sums, K, eps)[:, None]
    g, u = g * scale, u * scale
    row, col = tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
    out = (g / (1.0 + tl.exp(-g)) * u).to(y.dtype.element_ty)
    tl.store(y + row[:, None] * N + col[None, :], out, mask=(col < N)[None, :])


def up_product(
    x: Normed, eps: float, w: Tensor, y: Tensor, config: ProductConfig | None = None, *,
    early: bool = False,
) -> None:  # fmt: skip
    """y = silu(gate) * up of the norm of a stream that its producer left for it.

    Args:
        x: the stream [16, K], left for the norm.
        w: [2 I, K], gate above up, contiguous, of the stream's dtype.
        y: [16, I], contiguous, written.
        early: as in `kernels/early.py`.
    """
    n, k = w.shape[0] // 2, w.shape[1]
    c = config or ProductConfig.pair(n, k)
    _up[(triton.cdiv(n, c.cols),)](
        *x, eps, w, y, n, k, triton.next_power_of_2(x.squares.shape[0]), ROWS, c.cols, c.depth,
        early, num_warps=c.warps, num_stages=c.stages, enable_fp_fusion=False, **options(early),
    )  # fmt: skip
