"""The calibrated probability that a draft is accepted (paper appendix A.2), inside a kernel.

Operations and their order are those of `policy/host.py`, in float64; only the last bit of a
logarithm or an exponential may differ.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _wide(value: tl.constexpr):  # type: ignore[no-untyped-def]
    """A constant in float64; a bare one would be rounded to float32 first."""
    return tl.full((), value, tl.float64)


@triton.jit
def _at_least(x, least):  # type: ignore[no-untyped-def]
    return tl.where(x < least, least, x)


@triton.jit
def _interpolated(c, real, x, y, row, KNOTS, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Row i of curve i - 1 at c [ROWS], linear between knots and flat beyond them."""
    base = (row - 1) * KNOTS
    right = row * 0  # knots that are not above c: where bisection to the right ends
    for start in range(0, KNOTS, CHUNK):
        k = start + tl.arange(0, CHUNK)
        mask = real[:, None] & (k < KNOTS)[None, :]
        knots = tl.load(x + base[:, None] + k[None, :], mask=mask, other=float("inf"))
        right += tl.sum((knots <= c[:, None]).to(tl.int32), 1)
    low, high = tl.maximum(right - 1, 0), tl.minimum(right, KNOTS - 1)
    x0, x1 = tl.load(x + base + low, mask=real), tl.load(x + base + high, mask=real)
    y0, y1 = tl.load(y + base + low, mask=real), tl.load(y + base + high, mask=real)
    between = (right > 0) & (right < KNOTS)
    step = tl.where(between, x1 - x0, 1.0)
    return tl.where(between, y0 + (c - x0) / step * (y1 - y0), y0)


@triton.jit
def _entropy_before(entropy, row, least, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The moving average of the drafts before each one, [ROWS]; the first one's own at first."""
    mean = _at_least(tl.load(entropy + 1).to(tl.float64), least)
    before = tl.zeros((ROWS,), tl.float64)
    for i in tl.static_range(1, ROWS):
        before = tl.where(row == i, mean, before)
        mean = (_at_least(tl.load(entropy + i).to(tl.float64), least) + mean) / 2
    return before


@triton.jit
def conditional(  # type: ignore[no-untyped-def]
    confidence, entropy, real, x, y, weights, KNOTS, D: tl.constexpr, EDGE: tl.constexpr,
    MIN_ENTROPY: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """c_i in row i [ROWS] fp64, from scores [ROWS] fp32; other rows than `real` mean nothing."""
    row = tl.arange(0, ROWS)
    raw = tl.load(confidence + row, mask=real, other=0.5).to(tl.float64)
    edge, least = _wide(EDGE), _wide(MIN_ENTROPY)
    p = _at_least(_interpolated(raw, real, x, y, row, KNOTS, CHUNK), edge)
    most = _wide(1 - EDGE)
    p = tl.where(p > most, most, p)
    odds = tl.log(p / (1.0 - p))
    place = row.to(tl.float64) / D
    h = _at_least(tl.load(entropy + row, mask=real, other=1.0).to(tl.float64), least)
    before = tl.where(real, _entropy_before(entropy, row, least, ROWS), 1.0)
    z = tl.load(weights) + tl.load(weights + 1) * odds + tl.load(weights + 2) * place
    z += tl.load(weights + 3) * odds * place
    # 1 + h is off by 1e-16 of 1 at most, and so is its logarithm
    z = z + tl.load(weights + 4) * tl.log(1.0 + h) + tl.load(weights + 5) * tl.log(h / before)
    low = z <= -700.0  # where the exponential would overflow
    return tl.where(low, 0.0, 1.0 / (1.0 + tl.exp(-tl.where(low, 0.0, z))))
