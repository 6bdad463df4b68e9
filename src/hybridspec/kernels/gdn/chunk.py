"""What the kernels of `chunked.py` share: a chunk's tokens, their decay, a triangular inverse."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def decay(g, start, head, T, VH: tl.constexpr, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """G [CHUNK] float64, the running sum of g: differences must survive a strong decay among weak
    ones. Tokens beyond T do not decay."""
    t = start + tl.arange(0, CHUNK)
    one = tl.load(g + t.to(tl.int64) * VH + head, mask=t < T, other=0.0)
    return tl.cumsum(one.to(tl.float64), 0)


@triton.jit
def gamma(total, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """e^(G_i - G_j) where i >= j, else 0: never the exponential of a positive number."""
    t = tl.arange(0, CHUNK)
    past = t[:, None] >= t[None, :]
    gap = (total[:, None] - total[None, :]).to(tl.float32)
    return tl.where(past, tl.exp(tl.where(past, gap, 0.0)), 0.0)


@triton.jit
def tile(  # type: ignore[no-untyped-def]
    x, start, head, first, T,
    HEADS: tl.constexpr, SIZE: tl.constexpr, COLS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """A chunk's COLS columns from `first` of one head of x [T, HEADS, SIZE], in fp32; zeros beyond
    T."""
    t, col = start + tl.arange(0, CHUNK), first + tl.arange(0, COLS)
    at = (t.to(tl.int64)[:, None] * HEADS + head) * SIZE + col[None, :]
    return tl.load(x + at, mask=(t < T)[:, None], other=0.0).to(tl.float32)


@triton.jit
def unit_inverse(lower, CHUNK: tl.constexpr, LEVELS: tl.constexpr, PRECISION: tl.constexpr):  # type: ignore[no-untyped-def]
    """(I + lower)^-1 for a chunk of 2^LEVELS, joined from halves: with D, A the inverses of two
    diagonal blocks and L between them, below a pair stands -D L A. No power of `lower` is formed:
    see README.md."""
    row, col = tl.arange(0, CHUNK)[:, None], tl.arange(0, CHUNK)[None, :]
    inverse = tl.where(row == col, 1.0, 0.0)
    inverse -= tl.where((row % 2 == 1) & (col == row - 1), lower, 0.0)
    for level in range(1, LEVELS):  # a loop, for unrolled it would take a minute to compile
        block = row >> level
        between = tl.where((block % 2 == 1) & ((col >> level) == block - 1), lower, 0.0)
        left = tl.dot(inverse, between, input_precision=PRECISION)
        tl.debug_barrier()  # else both products' operands are fetched at once and spill
        inverse = tl.dot(-left, inverse, inverse, input_precision=PRECISION)
    return inverse
