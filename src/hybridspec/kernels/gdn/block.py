"""`block` verification as a Triton kernel: all tokens at once; the law: `naive.block`.

One program owns some rows of one head's state. Any length is a chunk of 16 tokens, padded with
tokens that write nothing; the length is read from device memory. What is left between products is
one triangular inverse of 16 x 16, joined from halves: two of 8, of 4, of 2. `fused` does it from
raw columns, which `columns.spread` makes tokens of first.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.columns import Spread, spread
from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.kernels.gdn.fused import Gates, silu

TOKENS = 16


@triton.jit
def _matmul(a, b):  # type: ignore[no-untyped-def]
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _join(inverse, lower, HALF: tl.constexpr):  # type: ignore[no-untyped-def]
    """From inverses of the diagonal blocks of HALF to those of twice the size: below a pair D, A of
    them with L between stands -D L A. `lower` [16, 16]: below the unit diagonal."""
    row, col = tl.arange(0, 16)[:, None] // HALF, tl.arange(0, 16)[None, :] // HALF
    between = tl.where((row % 2 == 1) & (col == row - 1), lower, 0.0)
    return inverse - _matmul(_matmul(inverse, between), inverse)


@triton.jit
def _unit_inverse(lower):  # type: ignore[no-untyped-def]
    """(I + lower)^-1. Unlike the truncated series (paper D.2) no power of `lower` is formed, which
    can be a thousand times larger than the inverse where keys repeat."""
    row, col = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    inverse = tl.where(row == col, 1.0, 0.0)
    inverse -= tl.where((row % 2 == 1) & (col == row - 1), lower, 0.0)
    inverse = _join(inverse, lower, 2)
    inverse = _join(inverse, lower, 4)
    return _join(inverse, lower, 8)


@triton.jit
def _products(  # type: ignore[no-untyped-def]
    q, k, state, real, key_head, head, row,
    KH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """K K^T, Q K^T [16, 16] and K S^T, Q S^T [16, ROWS], DEPTH columns of each at a time: exact
    products hold their operands in registers."""
    t, within = tl.arange(0, 16), row < DV
    kk, qk = tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32)
    ks, qs = tl.zeros((16, ROWS), tl.float32), tl.zeros((16, ROWS), tl.float32)
    for start in range(0, COLS, DEPTH):
        col = start + tl.arange(0, DEPTH)
        known = (col < DK)[None, :]
        at = (t[:, None] * KH + key_head) * DK + col[None, :]
        key = tl.load(k + at, mask=real[:, None] & known, other=0.0)
        query = tl.load(q + at, mask=real[:, None] & known, other=0.0)
        at = (head * DV + row)[:, None] * DK + col[None, :]
        s = tl.trans(tl.load(state + at, mask=within[:, None] & known, other=0.0))
        kk += _matmul(key, tl.trans(key))
        qk += _matmul(query, tl.trans(key))
        ks += _matmul(key, s)
        qs += _matmul(query, s)
    return kk, qk, ks, qs


@triton.jit
def _leave(  # type: ignore[no-untyped-def]
    o, raw, row_stride, norm, gated, squares, t, head, row, mask,
    VH: tl.constexpr, DV: tl.constexpr, C: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """o [16, ROWS] times the norm's factor and silu of its gate, and its sums of squares."""
    token = raw + (t + 3).to(tl.int64)[:, None] * row_stride + C
    gate = tl.load(token + head * DV + row[None, :], mask=mask, other=0.0).to(tl.float32)
    factor = tl.load(norm + row, mask=row < DV, other=0.0)[None, :]
    left = (o * factor * silu(gate)).to(gated.dtype.element_ty)
    tl.store(gated + (t[:, None] * VH + head) * DV + row[None, :], left, mask=mask)
    square = tl.sum(tl.where(mask, o * o, 0.0), 1)
    real = tl.max(mask.to(tl.int32), 1) > 0
    tl.store(squares + (t * VH + head) * BLOCKS + tl.program_id(0), square, mask=real)


@triton.jit
def _block(  # type: ignore[no-untyped-def]
    q, k, v, beta, g, state, o, z, raw, row_stride, norm, gated, squares, length,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    head, row = tl.program_id(1), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    t = tl.arange(0, 16)
    real = t < tl.load(length)
    kk, qk, ks, qs = _products(
        q, k, state, real, head // (VH // KH), head, row, KH, DK, DV, ROWS, COLS, DEPTH
    )
    at = (t[:, None] * VH + head) * DV + row[None, :]
    mask = real[:, None] & (row < DV)[None, :]
    value = tl.load(v + at, mask=mask, other=0.0)
    rate = tl.load(beta + t * VH + head, mask=real, other=0.0)[:, None]
    decay = tl.load(g + t * VH + head, mask=real, other=0.0)

    # float64: differences of sums must survive a strong decay among weak ones
    total = tl.cumsum(decay.to(tl.float64), 0)
    past = t[:, None] >= t[None, :]
    gap = (total[:, None] - total[None, :]).to(tl.float32)
    gamma = tl.where(past, tl.exp(tl.where(past, gap, 0.0)), 0.0)
    grown = tl.exp(total.to(tl.float32))[:, None]

    inverse = _unit_inverse(tl.where(t[:, None] > t[None, :], kk * gamma * rate, 0.0))
    z_t = _matmul(inverse, rate * (value - grown * ks))
    tl.store(z + at, z_t, mask=mask)
    o_t = grown * qs + _matmul(qk * gamma, z_t)
    if gated is None:
        tl.store(o + at, o_t, mask=mask)
    else:
        C: tl.constexpr = 2 * KH * DK + VH * DV
        _leave(o_t, raw, row_stride, norm, gated, squares, t, head, row, mask, VH, DV, C,
               tl.cdiv(DV, ROWS))  # fmt: skip


def verify(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor,
    o: Tensor, z: Tensor, length: Tensor, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Verify `length` tokens of one layer; the state is left as it is.

    Args:
        g: [W, VH] fp32, the logarithm of the decay. The rest as in `exact.verify`.

    Bits depend on how tokens are divided into rounds, unlike those of `exact`. Source: paper
    equations 3 and 10.
    """
    _launch((q, k, v, beta, g, state, o, z), (None,) * 5, length, config)


def fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, z: Tensor, k: Tensor,
    g: Tensor, alpha: Tensor, length: Tensor, room: Spread, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """As `fused.verify`, in two launches.

    Args:
        g: [16, VH] fp32, written beside alpha.
        room: for what the first launch makes.
    """
    spread(raw, gates, room, k, g, alpha, length)
    tokens = (room.q, k, room.v, room.beta, g, state, None, z)
    _launch(tokens, (raw, raw.stride(0), gates.norm, gated, squares), length, config)


def _launch(
    tokens: tuple[Tensor | None, ...], ends: tuple[Tensor | int | None, ...], length: Tensor,
    config: GDNConfig | None,
) -> None:  # fmt: skip
    _, k, v, *_ = tokens
    assert k is not None
    assert v is not None
    key_heads, dk = k.shape[1:]
    value_heads, dv = v.shape[1:]
    c = config or GDNConfig(max(16, GDNConfig.choose(dv, dk).rows), 4)
    _block[(triton.cdiv(dv, c.rows), value_heads)](
        *tokens, *ends, length, key_heads, value_heads, dk, dv, c.rows, max(16, c.cols(dk)), 16,
        num_warps=c.warps, enable_fp_fusion=False,
    )  # fmt: skip
