"""What the sampling kernels make of one number: its order, its mass, a uniform one."""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)
# ln 2 in two parts; the first has 9 bits, so that its products with small integers are exact.
LN2_HIGH = tl.constexpr(0.693359375)
LN2_LOW = tl.constexpr(-2.1219444005469057e-4)
LEAST_EXPONENT = tl.constexpr(-100.0)  # e^-100 is below 2^-61, where every mass is 0
UNIT = tl.constexpr(2.0**-53)


@triton.jit
def order(x):  # type: ignore[no-untyped-def]
    """fp32 -> int64 in [0, 2^32) that orders like x; -0 like 0."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return bits.to(tl.int64) + 2147483648


@triton.jit
def ordered(key):  # type: ignore[no-untyped-def]
    """The x of an order."""
    bits = (key - 2147483648).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def mass(x, peak, temperature, SHIFT: tl.constexpr):  # type: ignore[no-untyped-def]
    """floor(2^SHIFT e^((x - peak) / temperature)) as fp32, which holds it exactly; 2^SHIFT at most.

    The exponent is reduced to half a power of two first, so that the error of the hardware's
    exponential does not grow with it.
    """
    z = tl.maximum(tl.div_rn(x - peak, temperature), LEAST_EXPONENT)
    n = tl.floor(z * LOG2_E + 0.5)
    r = (z - n * LN2_HIGH) - n * LN2_LOW
    power = ((n.to(tl.int32) + (127 + SHIFT)) << 23).to(tl.float32, bitcast=True)
    whole = ((127 + SHIFT) << 23) + tl.zeros_like(n).to(tl.int32)
    return tl.minimum(tl.floor(tl.exp(r) * power), whole.to(tl.float32, bitcast=True))


@triton.jit
def uniform(seed, position):  # type: ignore[no-untyped-def]
    """As `runtime/philox.py`: float64 in [0, 1) from int64 seed and position."""
    zero = tl.full((), 0, tl.uint32)
    high, low, _, _ = tl.philox_impl(
        position.to(tl.uint32), (position >> 32).to(tl.uint32), zero, zero,
        seed.to(tl.uint32), (seed >> 32).to(tl.uint32),
    )  # fmt: skip
    return ((high.to(tl.int64) << 21) | (low.to(tl.int64) >> 11)).to(tl.float64) * UNIT


@triton.jit
def at_least(x):  # type: ignore[no-untyped-def]
    """The least integer, 1 or more, that float64 does not round below x; x is below 2^62.

    Beyond 2^53 integers lie between two float64, and what is above the middle rounds up to x.
    """
    x = tl.maximum(x, 1.0)
    below = (x.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True).to(tl.int64)
    middle = below + ((x.to(tl.int64) - below) >> 1)
    return middle + (middle.to(tl.float64) < x).to(tl.int64)
