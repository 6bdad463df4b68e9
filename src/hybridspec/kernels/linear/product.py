"""Products of at most 16 rows as one Triton kernel with what comes before and after them.

A program owns some columns of the result and walks K in order: a row's result depends neither on
the other rows nor on how many there are. The tile has 16 rows; those beyond the tokens at hand are
computed from whatever lies there and mean nothing.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS, ProductConfig


@triton.jit
def _silu(x):  # type: ignore[no-untyped-def]
    return x / (1.0 + tl.exp(-x))


@triton.jit
def _normalised_heads(x, factor, gate, eps, HEAD: tl.constexpr):  # type: ignore[no-untyped-def]
    """x, gate [16, depth] of whole heads, factor [HEAD]: norm by head, times silu(gate)."""
    heads: tl.constexpr = x.shape[1] // HEAD
    x = tl.reshape(x, (x.shape[0], heads, HEAD))
    scale = tl.rsqrt(tl.sum(x * x, 2) / HEAD + eps)
    x = x * scale[:, :, None] * factor[None, None, :]
    return tl.reshape(x, (x.shape[0], heads * HEAD)) * _silu(gate)


@triton.jit
def _product(  # type: ignore[no-untyped-def]
    x, w, y, factor, gate, gate_row, residual, eps, N, K,
    NORM: tl.constexpr, HEAD: tl.constexpr, ADD: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    within = col < N
    acc = tl.zeros((ROWS, COLS), tl.float32)
    squares = tl.zeros((ROWS,), tl.float32)
    for start in range(0, K, DEPTH):
        at = start + inner
        known = at < K
        tile = tl.load(
            w + col[:, None].to(tl.int64) * K + at[None, :],
            mask=within[:, None] & known[None, :], other=0.0,
        )  # fmt: skip
        a = tl.load(x + row[:, None] * K + at[None, :], mask=known[None, :], other=0.0)
        if NORM:
            a = a.to(tl.float32)
            squares += tl.sum(a * a, 1)
            a = a * tl.load(factor + at, mask=known, other=0.0)[None, :]
        if HEAD > 0:
            opened = tl.load(
                gate + row[:, None] * gate_row + at[None, :], mask=known[None, :], other=0.0
            ).to(tl.float32)
            head_factor = tl.load(factor + tl.arange(0, HEAD))
            a = _normalised_heads(a.to(tl.float32), head_factor, opened, eps, HEAD)
        acc = tl.dot(a.to(tile.dtype), tl.trans(tile), acc, input_precision="ieee")
    if NORM:
        acc = acc * tl.rsqrt(squares / K + eps)[:, None]
    at = row[:, None] * N + col[None, :]
    if ADD:
        acc += tl.load(residual + at, mask=within[None, :], other=0.0).to(tl.float32)
    tl.store(y + at, acc.to(y.dtype.element_ty), mask=within[None, :])


def product(
    x: Tensor, w: Tensor, y: Tensor, residual: Tensor | None = None,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """y = x w^T, on top of `residual` where there is one.

    Args:
        x: [16, K], of w's dtype. w: [N, K] fp32, fp16 or bf16. All tensors contiguous.
        y: [16, N], written. residual: [16, N]; may be y itself.
        early: as in `kernels/early.py`.
    """
    _launch(x, w, y, residual=residual, config=config, early=early)


def norm_product(
    x: Tensor, factor: Tensor, eps: float, w: Tensor, y: Tensor,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """y = norm(x) w^T. The norm's scale is applied to the sums: K is walked once.

    Args:
        x: [16, K]. factor: [K] fp32, 1 + the norm's weight. w, y: as in `product`.
    """
    _launch(x, w, y, factor=factor, eps=eps, norm=True, config=config, early=early)


def gated_product(
    o: Tensor, gate: Tensor, factor: Tensor, eps: float, w: Tensor, y: Tensor, residual: Tensor,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """y = residual + (norm by head (o) silu(gate)) w^T, the end of a GDN mixer.

    Args:
        o: [16, H, d] fp32, d a power of two. gate: [16, H d], rows may lie apart (a view of the
            joint projection). factor: [d] fp32. w, y, residual: as in `product`, K = H d.
    """
    head = o.shape[-1]
    c = config or ProductConfig.choose(w.shape[0], w.shape[1], head)
    _launch(
        o, w, y, factor=factor, gate=gate, residual=residual, eps=eps, head=head, config=c,
        early=early,
    )  # fmt: skip


def _launch(
    x: Tensor, w: Tensor, y: Tensor, *, factor: Tensor | None = None, gate: Tensor | None = None,
    residual: Tensor | None = None, eps: float = 0.0, norm: bool = False, head: int = 0,
    config: ProductConfig | None = None, early: bool = False,
) -> None:  # fmt: skip
    n, k = w.shape
    c = config or ProductConfig.choose(n, k)
    gate_row = 0 if gate is None else gate.stride(0)
    _product[(triton.cdiv(n, c.cols),)](
        x, w, y, factor, gate, gate_row, residual, eps, n, k, norm, head, residual is not None,
        ROWS, c.cols, c.depth, early, num_warps=c.warps, num_stages=c.stages,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
