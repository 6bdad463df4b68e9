"""Numbers and ids as one integer, so that one maximum finds the largest and its lowest id."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rank(x, token):  # type: ignore[no-untyped-def]
    """An int64 that orders by x (fp32), then by the lower token (int32). Any NaN is above all
    numbers, -0 equals 0. Integers throughout: no compiler may take a NaN for another."""
    bits = x.to(tl.int32, bitcast=True)
    bits = tl.where((bits & 0x7FFFFFFF) > 0x7F800000, 0x7FFFFFFF, bits)
    bits = tl.where((bits & 0x7FFFFFFF) == 0, 0, bits)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) | (0x7FFFFFFF - token).to(tl.int64)


@triton.jit
def value_of(ranked):  # type: ignore[no-untyped-def]
    """The x of a rank."""
    bits = (ranked >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def token_of(ranked):  # type: ignore[no-untyped-def]
    """The token of a rank, int64."""
    return 0x7FFFFFFF - (ranked & 0x7FFFFFFF)


@triton.jit
def is_finite(x):  # type: ignore[no-untyped-def]
    """Neither an infinity nor NaN."""
    return tl.abs(x) < float("inf")
