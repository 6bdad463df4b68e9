"""`exact` verification and its commit as Triton kernels; the law: `naive.recurrent`, `retrace`.

One program owns some rows of one head's state and walks the tokens; a row's result depends neither
on the other rows nor on how many tokens follow, so any division into rounds gives the same bits.
Lengths are read from device memory: one binary serves them all.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.config import GDNConfig


@triton.jit
def decay_and_read(state, alpha, k):  # type: ignore[no-untyped-def]
    """alpha S and (alpha S) k: state [rows, dk], k [dk]."""
    state = state * alpha
    return state, tl.sum(state * k[None, :], 1)


@triton.jit
def write(state, z, k):  # type: ignore[no-untyped-def]
    """S + z k^T, spelt once: verification and commit must round alike."""
    return tl.fma(z[:, None], k[None, :], state)


@triton.jit
def _verify(  # type: ignore[no-untyped-def]
    q, k, v, beta, alpha, state, o, z, length,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    head, row = tl.program_id(1), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    within, known = row < DV, col < DK
    key_head = head // (VH // KH)
    at = (head * DV + row)[:, None] * DK + col[None, :]
    s = tl.load(state + at, mask=within[:, None] & known[None, :], other=0.0)
    for t in range(tl.load(length)):
        key = tl.load(k + (t * KH + key_head) * DK + col, mask=known, other=0.0)
        query = tl.load(q + (t * KH + key_head) * DK + col, mask=known, other=0.0)
        value = tl.load(v + (t * VH + head) * DV + row, mask=within, other=0.0)
        s, read = decay_and_read(s, tl.load(alpha + t * VH + head), key)
        seen = tl.sum(s * query[None, :], 1)  # S q = (alpha S) q + z (k . q)
        z_t = tl.load(beta + t * VH + head) * (value - read)
        s = write(s, z_t, key)
        tl.store(z + (t * VH + head) * DV + row, z_t, mask=within)
        o_t = tl.fma(z_t, tl.sum(key * query, 0), seen)
        tl.store(o + (t * VH + head) * DV + row, o_t, mask=within)


@triton.jit
def _commit(  # type: ignore[no-untyped-def]
    state, z, k, alpha, length, state_layer, z_layer, k_layer, alpha_layer,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    layer = tl.program_id(2).to(tl.int64)
    head, row = tl.program_id(1), tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLS)
    within, known = row < DV, col < DK
    key_head = head // (VH // KH)
    at = state + layer * state_layer + (head * DV + row)[:, None] * DK + col[None, :]
    mask = within[:, None] & known[None, :]
    s = tl.load(at, mask=mask, other=0.0)
    z, k, alpha = z + layer * z_layer, k + layer * k_layer, alpha + layer * alpha_layer
    for t in range(tl.load(length)):
        key = tl.load(k + (t * KH + key_head) * DK + col, mask=known, other=0.0)
        z_t = tl.load(z + (t * VH + head) * DV + row, mask=within, other=0.0)
        s = write(s * tl.load(alpha + t * VH + head), z_t, key)
    tl.store(at, s, mask=mask)


def verify(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, z: Tensor, length: Tensor, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Verify `length` tokens of one layer; the state is left as it is.

    Args:
        q, k: [W, KH, dk] fp32, normalised, q scaled. v: [W, VH, dv] fp32.
        beta, alpha: [W, VH] fp32; alpha = e^g.
        state: [VH, dv, dk] fp32.
        o, z: [W, VH, dv] fp32, written in rows 0..length-1.
        length: [] int32 on the device, w.

    All contiguous. Source: paper equation 2.
    """
    key_heads, dk = k.shape[1:]
    value_heads, dv = v.shape[1:]
    c = config or GDNConfig.choose(dv, dk)
    _verify[(triton.cdiv(dv, c.rows), value_heads)](
        q, k, v, beta, alpha, state, o, z, length, key_heads, value_heads, dk, dv,
        c.rows, c.cols(dk), num_warps=c.warps, enable_fp_fusion=False,
    )  # fmt: skip


def commit(
    state: Tensor, z: Tensor, k: Tensor, alpha: Tensor, length: Tensor,
    config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Advance the states of all layers over `length` verified tokens, in one launch.

    Args:
        state: [L, VH, dv, dk] fp32, changed in place.
        z: [L, W, VH, dv], k: [L, W, KH, dk], alpha: [L, W, VH], fp32: the factors.
        length: [] int32 on the device, m.

    Layers may lie apart; inside a layer all is contiguous. Bit-equal to what `verify` held after
    token m (paper equation 7 by the recurrence's own operations).
    """
    layers, value_heads, dv, dk = state.shape
    c = config or GDNConfig.choose(dv, dk)
    strides = (t.stride(0) for t in (state, z, k, alpha))
    _commit[(triton.cdiv(dv, c.rows), value_heads, layers)](
        state, z, k, alpha, length, *strides, k.shape[2], value_heads, dk, dv,
        c.rows, c.cols(dk), num_warps=c.warps, enable_fp_fusion=False,
    )  # fmt: skip
