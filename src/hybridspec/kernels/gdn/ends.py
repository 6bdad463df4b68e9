"""What stands before and behind the chunks of a prefill, a Triton kernel each.

`convolve`: raw columns to q, k and v; `finish`: norm and gate of the outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.fused import silu

TOKENS = 16  # of a program


class Heads(NamedTuple):
    """KH key heads of dk and VH value heads of dv."""

    keys: int
    values: int
    dk: int
    dv: int


@triton.jit
def _columns(  # type: ignore[no-untyped-def]
    raw, raw_row, history, history_row, taps, first, t, T, C,
    SIZE: tl.constexpr, TAPS: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """silu of the convolution of SIZE columns from `first`, tokens t, rounded to raw's dtype."""
    col = first + tl.arange(0, SIZE)
    acc = tl.zeros((TOKENS, SIZE), tl.float32)
    for tap in tl.static_range(TAPS):
        row = t - (TAPS - 1) + tap
        old = (row < 0)[:, None]
        at = history + (row + TAPS - 1)[:, None] * history_row + col[None, :]
        x = tl.load(at, mask=old, other=0.0).to(tl.float32)
        at = raw + row.to(tl.int64)[:, None] * raw_row + col[None, :]
        x += tl.load(at, mask=((row >= 0) & (row < T))[:, None], other=0.0).to(tl.float32)
        acc += x * tl.load(taps + tap * C + col)[None, :]
    return silu(acc).to(raw.dtype.element_ty).to(tl.float32)


@triton.jit(do_not_specialize=["T"])
def _convolve(  # type: ignore[no-untyped-def]
    raw, raw_row, history, history_row, taps, q, k, v, scale, eps, T, C,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    TAPS: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    """One head's columns: first all q, then k, then v."""
    t, head = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.program_id(1)
    real = (t < T)[:, None]
    if head < 2 * KH:
        y = _columns(raw, raw_row, history, history_row, taps, head * DK, t, T, C, DK, TAPS, TOKENS)
        y *= tl.rsqrt(tl.sum(y * y, 1) + eps)[:, None]
        at = (t.to(tl.int64)[:, None] * KH + head % KH) * DK + tl.arange(0, DK)[None, :]
        if head < KH:
            tl.store(q + at, y * scale, mask=real)
        else:
            tl.store(k + at, y, mask=real)
    else:
        place = head - 2 * KH
        first = 2 * KH * DK + place * DV
        value = _columns(raw, raw_row, history, history_row, taps, first, t, T, C, DV, TAPS, TOKENS)
        to = (t.to(tl.int64)[:, None] * VH + place) * DV + tl.arange(0, DV)[None, :]
        tl.store(v + to, value.to(v.dtype.element_ty), mask=real)


@triton.jit(do_not_specialize=["T"])
def _finish(  # type: ignore[no-untyped-def]
    o, gate, gate_row, factor, y, eps, T,
    VH: tl.constexpr, DV: tl.constexpr, TOKENS: tl.constexpr,
):  # fmt: skip
    t, head = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.program_id(1)
    col = tl.arange(0, DV)
    real = (t < T)[:, None]
    rows = t.to(tl.int64)[:, None]
    at = (rows * VH + head) * DV + col[None, :]
    x = tl.load(o + at, mask=real, other=0.0)
    z = tl.load(gate + rows * gate_row + head * DV + col[None, :], mask=real, other=0.0)
    x *= tl.rsqrt(tl.sum(x * x, 1) / DV + eps)[:, None] * tl.load(factor + col)[None, :]
    tl.store(y + at, (x * silu(z.to(tl.float32))).to(y.dtype.element_ty), mask=real)


def convolve(
    raw: Tensor, history: Tensor, taps: Tensor, heads: Heads, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Raw columns [T, C] behind `history` [taps - 1, C] -> q, k [T, KH, dk] fp32 and v [T, VH, dv].

    q and k are divided by their lengths (eps beside the sum of squares), q by dk^1/2 too. v has
    raw's dtype, to which all three are rounded after silu. taps: [taps, C] fp32. Rows of raw and of
    the history may lie apart.
    """
    tokens, c = raw.shape
    q, k = taps.new_empty(2, tokens, heads.keys, heads.dk)
    v = raw.new_empty(tokens, heads.values, heads.dv)
    _convolve[(triton.cdiv(tokens, TOKENS), 2 * heads.keys + heads.values)](
        raw, raw.stride(0), history, history.stride(0), taps, q, k, v, heads.dk**-0.5, eps, tokens,
        c, *heads, len(taps), TOKENS, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return q, k, v


def finish(o: Tensor, gate: Tensor, factor: Tensor, eps: float) -> Tensor:
    """Norm of each head of o [T, VH, dv] fp32 times silu(gate) [T, VH dv] -> [T, VH dv].

    The result has the gate's dtype; rows of the gate may lie apart. factor: [dv] fp32.
    """
    tokens, heads, dv = o.shape
    y = torch.empty(tokens, heads * dv, dtype=gate.dtype, device=gate.device)
    _finish[(triton.cdiv(tokens, TOKENS), heads)](
        o, gate, gate.stride(0), factor, y, eps, tokens, heads, dv, TOKENS,
        num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    return y
