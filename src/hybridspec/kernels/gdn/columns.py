"""From raw columns to a verification's tokens, for a verifier that has them all at once.

What `fused.py` does token by token before its recurrence, as a launch of its own: a program a token
and value head. The law: `model/gdn.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.fused import Gates, column, softplus, unit
from hybridspec.kernels.sizes import power

TOKENS = 16


class Spread(NamedTuple):
    """What a verification needs of its tokens and no commit: q [16, KH, dk], v [16, VH, dv] and
    beta [16, VH], fp32."""

    q: Tensor
    v: Tensor
    beta: Tensor

    @classmethod
    def empty(
        cls, key_heads: int, value_heads: int, dk: int, dv: int, device: torch.device | str
    ) -> Spread:
        """Of one layer; one serves all, for they run one after another."""
        shapes = (key_heads, dk), (value_heads, dv), (value_heads,)
        return cls(*(torch.zeros(TOKENS, *shape, device=device) for shape in shapes))


@triton.jit
def _spread(  # type: ignore[no-untyped-def]
    raw, row_stride, taps, rate, bias, q, v, beta, k, g, alpha, length,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    COLS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    t, head = tl.program_id(0), tl.program_id(1)
    row_stride = row_stride.to(tl.int64)
    C: tl.constexpr = 2 * KH * DK + VH * DV
    if t < tl.load(length):
        row, key_head = tl.arange(0, ROWS), head // (VH // KH)
        value = column(raw, row_stride, taps, C, t, 2 * KH * DK + head * DV + row, row < DV)
        tl.store(v + (t * VH + head) * DV + row, value, mask=row < DV)
        gates = raw + (t + 3) * row_stride + C + VH * DV + head
        b, a = tl.load(gates).to(tl.float32), tl.load(gates + VH).to(tl.float32)
        decay = tl.load(rate + head) * softplus(a + tl.load(bias + head))
        tl.store(beta + t * VH + head, 1.0 / (1.0 + tl.exp(-b)))
        tl.store(g + t * VH + head, decay)
        tl.store(alpha + t * VH + head, tl.exp(decay))
        if head % (VH // KH) == 0:
            col = tl.arange(0, COLS)
            channel, known = key_head * DK + col, col < DK
            at = (t * KH + key_head) * DK + col
            query = column(raw, row_stride, taps, C, t, channel, known)
            tl.store(q + at, unit(query, DK**-0.5), mask=known)
            key = column(raw, row_stride, taps, C, t, KH * DK + channel, known)
            tl.store(k + at, unit(key, 1.0), mask=known)


def spread(
    raw: Tensor, gates: Gates, room: Spread, k: Tensor, g: Tensor, alpha: Tensor, length: Tensor
) -> None:
    """Convolution, SiLU, lengths of q and k, and gates of `length` tokens of one layer.

    Args:
        raw, gates, length: as in `fused.verify`.
        room: written in rows 0..length-1, as are
        k: [16, KH, dk], g and alpha = e^g: [16, VH], fp32.
    """
    _, key_heads, dk = k.shape
    _, value_heads, dv = room.v.shape
    _spread[(TOKENS, value_heads)](
        raw, raw.stride(0), gates.taps, gates.rate, gates.bias, *room, k, g, alpha, length,
        key_heads, value_heads, dk, dv, power(dk), power(dv), num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
