"""From rows of the joint projection to rotated queries and new rows of the cache: one launch.

Norms of q and k a head, rotary embedding, and k and v put where attention finds them. A program has
a few rows of one head; rows beyond the length are neither read nor written.
"""

from __future__ import annotations

from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sizes import power

MINE = 4  # rows of a program: one a warp, whose sum of squares then needs no barrier


class Norms(NamedTuple):
    """Factors of the norms of q and k, [D] fp32 (the target's are 1 + weight), and their eps. k of
    several layers is [L, D]."""

    q: Tensor
    k: Tensor
    eps: float


class Tables(NamedTuple):
    """cos, sin [positions, 1, R] fp32 as `Rope` builds them: sin is negative in its first half."""

    cos: Tensor
    sin: Tensor


@triton.jit
def read_rows(x, real, D: tl.constexpr, R: tl.constexpr, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows of heads [rows, COLS], and the partner of every value that turns; 0 where not real. x:
    [rows, 1] pointers to them."""
    col = tl.arange(0, COLS)[None, :]
    partner = tl.where(col < R // 2, col + R // 2, col - R // 2)
    a = tl.load(x + col, mask=real[:, None] & (col < D), other=0.0)
    return a, tl.load(x + partner, mask=real[:, None] & (col < R), other=0.0)


@triton.jit
def turned(  # type: ignore[no-untyped-def]
    a, b, factor, eps, cos, sin, at, real, D: tl.constexpr, R: tl.constexpr
):  # fmt: skip
    """Rows normed and rotated, fp32 but rounded after the norm. a, b: of `read_rows`; at: their
    positions."""
    # factors as wide as the rows: a row of them would lie across other threads
    col = tl.arange(0, a.shape[1])[None, :] + tl.zeros_like(a).to(tl.int32)
    partner = tl.where(col < R // 2, col + R // 2, col - R // 2)
    turning = real[:, None] & (col < R)
    own = tl.load(factor + col, mask=col < D, other=0.0)
    its = tl.load(factor + partner, mask=col < R, other=0.0)
    x, y = a.to(tl.float32), b.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / D + eps)[:, None]
    x = (x * scale * own).to(a.dtype).to(tl.float32)
    y = (y * scale * its).to(a.dtype).to(tl.float32)
    c = tl.load(cos + at[:, None] * R + col, mask=turning, other=1.0)
    s = tl.load(sin + at[:, None] * R + col, mask=turning, other=0.0)
    return tl.fma(y, s, x * c)


@triton.jit
def marked(y, v):  # type: ignore[no-untyped-def]
    """Keys and values [rows, COLS] to keep. A value that is not finite must reach those alone who
    see it, but 0 x NaN is NaN: it is left as 0, and its key says NaN."""
    fine = tl.abs(v.to(tl.float32)) < float("inf")
    y = tl.where(tl.min(fine.to(tl.int32), 1)[:, None] > 0, y, float("nan"))
    return y, tl.where(fine, v, 0.0)


@triton.jit
def _prepare(  # type: ignore[no-untyped-def]
    qkv, qkv_row, q_factor, k_factor, eps, cos, sin, keys, values, layer_stride, head_stride,
    position, length, q,
    H: tl.constexpr, KV: tl.constexpr, LAYERS: tl.constexpr, D: tl.constexpr, R: tl.constexpr,
    STEP: tl.constexpr, RING: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    head, t = tl.program_id(0), tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    real, at = t < tl.load(length), tl.load(position) + t
    take_turn(EARLY)
    col = tl.arange(0, COLS)[None, :]
    known = real[:, None] & (col < D)
    row = qkv + (t * qkv_row)[:, None]
    if head < H:
        a, b = read_rows(row + head * STEP, real, D, R, COLS)
        y = turned(a, b, q_factor, eps, cos, sin, at, real, D, R)
        own = q + (t * H + head)[:, None] * D + col
        tl.store(own, y.to(q.dtype.element_ty), mask=known)
    else:
        kv, layer = head - H, (head - H) // KV
        k = row + H * STEP + kv * D
        a, b = read_rows(k, real, D, R, COLS)
        v = tl.load(k + LAYERS * KV * D + col, mask=known, other=0.0)
        y = turned(a, b, k_factor + layer * D, eps, cos, sin, at, real, D, R)
        y, v = marked(y, v)
        if RING > 0:
            at = at % RING
        to = layer.to(tl.int64) * layer_stride + (kv % KV).to(tl.int64) * head_stride
        to += at[:, None].to(tl.int64) * D + col
        tl.store(keys + to, y.to(keys.dtype.element_ty), mask=known)
        tl.store(values + to, v.to(values.dtype.element_ty), mask=known)


def prepare(
    qkv: Tensor, norms: Norms, rope: Tables, keys: Tensor, values: Tensor, position: Tensor,
    length: Tensor, q: Tensor | None, *, gated: bool = False, ring: bool = False,
    early: bool = False,
) -> None:  # fmt: skip
    """Queries of `length` rows at positions P, P + 1, ..., and their keys and values in the cache.

    Args:
        qkv: [16, R] of the joint projection, of the cache's dtype; rows may lie apart. `gated`: per
            head q and gate [H, 2 D], else q [H, D]; then k [KV, D], v [KV, D].
        keys, values: [KV, rows, D], alike; key heads may lie apart. Row P + t is written, with
            `ring` modulo the rows. Or of several layers [L, KV, rows, D]: qkv has then k of all of
            them [L, KV, D], then v.
        position, length: [] int32 on the device, P and w <= 16.
        q: [16, H, D], written in rows below the length. None: qkv has no q (a drafter's context).
        early: as in `kernels/early.py`; position, length, norms and tables must then not be what
            the kernel just before writes.
    """
    kv, rows, size = keys.shape[-3:]
    layers = keys.shape[0] if keys.ndim == 4 else 1
    heads = 0 if q is None else q.shape[1]
    if values.stride() != keys.stride() or keys.stride()[-2:] != (size, 1):
        raise ValueError("Keys and values must lie alike, their rows one behind the other.")
    _prepare[(heads + layers * kv, ROWS // MINE)](
        qkv, qkv.stride(0), norms.q, norms.k, norms.eps, *rope, keys, values, keys.stride(0),
        keys.stride(-3), position, length, keys if q is None else q, heads, kv, layers, size,
        rope.cos.shape[-1], 2 * size if gated else size, rows if ring else 0, MINE, power(size),
        early,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
