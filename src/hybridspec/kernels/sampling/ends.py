"""What the last program of a row does: from what the others left to the token."""

from __future__ import annotations

import triton
import triton.language as tl

from hybridspec.kernels.sampling.numbers import at_least, mass, order
from hybridspec.kernels.sampling.search import IDS, LOGITS, MASSES, descend, weigh


@triton.jit
def load_chunk(logits, chunk, V, CHUNK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Ids [CHUNK] and fp32 logits of a chunk; minus infinity beyond the vocabulary."""
    token = chunk * CHUNK + tl.arange(0, CHUNK)
    return token, tl.load(logits + token, mask=token < V, other=-float("inf")).to(tl.float32)


@triton.jit
def from_sums(  # type: ignore[no-untyped-def]
    sums, logits, u, peak, temperature, V,
    SHIFT: tl.constexpr, CHUNKS: tl.constexpr, PADDED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """The token at which the running mass passes u times all: its chunk first."""
    part = tl.arange(0, PADDED)
    sums = tl.load(sums + part, mask=part < CHUNKS, other=0, cache_modifier=".cg")
    point = (u * tl.sum(sums, 0).to(tl.float64)).to(tl.int64)
    chunk = tl.sum((tl.cumsum(sums, 0) <= point).to(tl.int32), 0)
    before = tl.sum(tl.where(part < chunk, sums, 0), 0)
    _, x = load_chunk(logits, chunk, V, CHUNK)
    running = before + tl.cumsum(mass(x, peak, temperature, SHIFT).to(tl.int64), 0)
    return chunk * CHUNK + tl.sum((running <= point).to(tl.int32), 0)


@triton.jit
def _keep_masses(  # type: ignore[no-untyped-def]
    values, count, lowest, peak, temperature, SHIFT: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """Listed logits become masses, 0 where their order is below `lowest`; the sum (int64)."""
    total = tl.full((), 0, tl.int64)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(values + at, mask=at < count, other=-float("inf"))
        m = tl.where(order(x) >= lowest, mass(x, peak, temperature, SHIFT), 0.0)
        tl.store(values + at, m, mask=at < count)
        total += tl.sum(m.to(tl.int64), 0)
    tl.debug_barrier()  # all are stored before any is read again
    return total


@triton.jit
def from_list(  # type: ignore[no-untyped-def]
    values, ids, count, narrow, top_p, least, sums, u, peak, temperature,
    SHIFT: tl.constexpr, CHUNKS: tl.constexpr, PADDED: tl.constexpr, DIGITS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Top k and nucleus of the list, then the token as in `from_sums`."""
    lowest = tl.full((), 0, tl.int64)
    if narrow > 0:
        lowest = descend(values, ids, count, narrow, 0, LOGITS, 8, 0, BLOCK)
    left = _keep_masses(values, count, lowest, peak, temperature, SHIFT, BLOCK)
    if top_p < 1.0:
        if narrow == 0:  # then the list lacks what is too light for any nucleus
            part = tl.arange(0, PADDED)
            at = sums + part
            left = tl.sum(tl.load(at, mask=part < CHUNKS, other=0, cache_modifier=".cg"), 0)
        wanted = at_least(left.to(tl.float64) * top_p)
        bits = descend(values, ids, count, wanted, 0, MASSES, 8, 0, BLOCK)
        lightest = bits.to(tl.int32).to(tl.float32, bitcast=True).to(tl.int64)
        least = tl.maximum(least, lightest)
    total = weigh(values, count, least, BLOCK)
    point = (u * total.to(tl.float64)).to(tl.int64)
    return descend(values, ids, count, total - point, least, IDS, DIGITS, 0, BLOCK)
