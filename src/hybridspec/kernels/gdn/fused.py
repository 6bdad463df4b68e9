"""`exact` verification from raw columns to gated outputs as one Triton kernel.

Between the joint projection and the output projection of a GDN layer lie a convolution over four
raw columns with SiLU, the lengths of q and k, the gates, the recurrence and the output's norm and
gate. The law: `model/gdn.py`. `exact.cu` has the same steps in CUDA C++, several times as fast;
this one is interpreted where there is no GPU and serves sizes that the other does not.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.kernels.gdn.exact import decay_and_read, write

TAPS = 4


class Gates(NamedTuple):
    """A layer's small weights, fp32: taps [4, C] of the convolution, oldest column first; rate
    [VH] = -exp(A_log); bias [VH] of the decay; norm [dv] of the outputs."""

    taps: Tensor
    rate: Tensor
    bias: Tensor
    norm: Tensor


@triton.jit
def silu(x):  # type: ignore[no-untyped-def]
    """x sigmoid(x)."""
    return x / (1.0 + tl.exp(-x))


@triton.jit
def softplus(x):  # type: ignore[no-untyped-def]
    """log(1 + e^x), without loss where e^x is small; x itself where that is all there is."""
    e = tl.exp(tl.minimum(x, 20.0))
    whole = 1.0 + e
    small = whole == 1.0
    y = tl.where(small, e, tl.log(whole) * e / tl.where(small, 1.0, whole - 1.0))
    return tl.where(x > 20.0, x, y)


@triton.jit
def column(raw, row, taps, C, t, channel, mask):  # type: ignore[no-untyped-def]
    """Channels of token t: convolved over raw rows t to t + 3, SiLU, rounded as the model does."""
    y = channel * 0.0
    for i in tl.static_range(4):
        x = tl.load(raw + (t + i) * row + channel, mask=mask, other=0.0)
        tap = tl.load(taps + i * C + channel, mask=mask, other=0.0)
        y = tl.fma(tap, x.to(tl.float32), y)
    return silu(y).to(raw.dtype.element_ty).to(tl.float32)


@triton.jit
def unit(x, size):  # type: ignore[no-untyped-def]
    """x at that length."""
    return x * (tl.rsqrt(tl.sum(x * x, 0) + 1e-6) * size)


@triton.jit
def _fused(  # type: ignore[no-untyped-def]
    raw, row_stride, taps, rate, bias, norm, state, gated, squares, z, k, alpha, states, pending,
    length, KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BLOCKS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1)
    row_stride = row_stride.to(tl.int64)
    row, col = block * ROWS + tl.arange(0, ROWS), tl.arange(0, COLS)
    within, known = row < DV, col < DK
    key_head = head // (VH // KH)
    C: tl.constexpr = 2 * KH * DK + VH * DV
    at = (head * DV + row)[:, None] * DK + col[None, :]
    mask = within[:, None] & known[None, :]
    s = tl.load(state + at, mask=mask, other=0.0)
    if pending is not None:  # `replay`: the factors of so many tokens come first in z, k and alpha
        n = tl.load(pending)
        for t in range(n):
            key = tl.load(k + (t * KH + key_head) * DK + col, mask=known, other=0.0)
            z_t = tl.load(z + (t * VH + head) * DV + row, mask=within, other=0.0)
            s = write(s * tl.load(alpha + t * VH + head), z_t, key)
        z, k, alpha = z + n * VH * DV, k + n * KH * DK, alpha + n * VH
    factor = tl.load(norm + row, mask=within, other=0.0)
    falling, shift = tl.load(rate + head), tl.load(bias + head)
    q_channel, v_channel = key_head * DK + col, 2 * KH * DK + head * DV + row
    for t in range(tl.load(length)):
        query = unit(column(raw, row_stride, taps, C, t, q_channel, known), DK**-0.5)
        key = unit(column(raw, row_stride, taps, C, t, KH * DK + q_channel, known), 1.0)
        value = column(raw, row_stride, taps, C, t, v_channel, within)
        token = raw + (t + 3) * row_stride + C
        gate = tl.load(token + head * DV + row, mask=within, other=0.0).to(tl.float32)
        beta = 1.0 / (1.0 + tl.exp(-tl.load(token + VH * DV + head).to(tl.float32)))
        a = tl.load(token + VH * DV + VH + head).to(tl.float32)
        decay = tl.exp(falling * softplus(a + shift))

        s, read = decay_and_read(s, decay, key)
        seen = tl.sum(s * query[None, :], 1)
        z_t = beta * (value - read)
        s = write(s, z_t, key)
        o = tl.fma(z_t, tl.sum(key * query, 0), seen)

        own = (t * VH + head) * DV + row
        left = o * factor * silu(gate)
        tl.store(gated + own, left.to(gated.dtype.element_ty), mask=within)
        square = tl.sum(tl.where(within, o * o, 0.0), 0)
        tl.store(squares + (t * VH + head) * BLOCKS + block, square)
        if states is not None:  # `per-token`
            tl.store(states + t * VH * DV * DK + at, s, mask=mask)
        else:
            tl.store(z + own, z_t, mask=within)
            if block == 0:
                tl.store(alpha + t * VH + head, decay)
                own_key = known & (head % (VH // KH) == 0)
                tl.store(k + (t * KH + key_head) * DK + col, key, mask=own_key)


@triton.jit
def _advance(raw, length, layer_stride, row_stride, C, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    base = raw + tl.program_id(1).to(tl.int64) * layer_stride + col
    row = tl.arange(0, 4)[:, None]
    mask = (row < 3) & (col < C)[None, :]
    m = tl.load(length)
    kept = tl.load(base[None, :] + (row + m) * row_stride, mask=mask)
    tl.debug_barrier()  # for m < 3 a row is read by one thread and written by another
    tl.store(base[None, :] + row * row_stride, kept, mask=mask)


def blocks(dv: int, config: GDNConfig | None = None) -> int:
    """Programs of a head, each with a part of every sum of squares."""
    return triton.cdiv(dv, (config or GDNConfig.choose(dv, 1)).rows)


def verify(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, z: Tensor, k: Tensor,
    alpha: Tensor, length: Tensor, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Verify `length` tokens of one layer; the state is left as it is.

    Args:
        raw: [3 + 16, R], R = C + VH dv + 2 VH: rows of the joint projection (q, k, v of all heads,
            then the output gate z, b, a), three of history first. Rows may lie apart.
        state: [VH, dv, dk] fp32.
        gated: [16, VH, dv] of raw's dtype, o times the norm's factor and silu(z), not yet
            normalised; squares: [16, VH, blocks] fp32, sums of o^2 for it. Both written in rows
            0..length-1, as are the factors
        z: [16, VH, dv], k: [16, KH, dk], alpha: [16, VH], fp32, which `exact.commit` takes.
        length: [] int32 on the device.

    All contiguous but raw.
    """
    launch(raw, gates, state, gated, squares, (z, k, alpha), None, None, length, k.shape[1], config)


def launch(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor,
    factors: tuple[Tensor | None, ...], states: Tensor | None, pending: Tensor | None,
    length: Tensor, key_heads: int, config: GDNConfig | None,
) -> None:  # fmt: skip
    """Verification by any verifier; the others than `exact` are in `baselines.py`."""
    value_heads, dv, dk = state.shape
    c = config or GDNConfig.choose(dv, dk)
    programs = triton.cdiv(dv, c.rows)
    _fused[(programs, value_heads)](
        raw, raw.stride(0), *gates, state, gated, squares, *factors, states, pending, length,
        key_heads, value_heads, dk, dv, programs, c.rows, c.cols(dk), num_warps=c.warps,
        enable_fp_fusion=False,
    )  # fmt: skip


def advance(raw: Tensor, channels: int, length: Tensor) -> None:
    """Let the last three of `length` committed tokens be the history: the convolution's commit.

    Args:
        raw: [L, 3 + 16, R] of all layers, as in `verify`; the first C = `channels` of rows 0 to 2
            are written. Layers and rows may lie apart.
        length: [] int32 on the device, m.
    """
    cols = 512
    _advance[(triton.cdiv(channels, cols), raw.shape[0])](
        raw, length, raw.stride(0), raw.stride(1), channels, cols
    )
