"""Searches of one program in the list of candidates that the programs of a row have left.

All three are one question: which is the largest t such that the candidates whose key is t or more
weigh `wanted` together? Digits of four bits are found from the top, by 16 sums each. The sums are
of integers, so the order of the list does not matter.

The list was written by other programs. Whoever searches it has seen them all arrive (`is_last`),
which empties the first-level cache, so plain loads find what is there, and find it fast again.
"""

from __future__ import annotations

import triton
import triton.language as tl

from hybridspec.kernels.sampling.numbers import order

LOGITS = tl.constexpr(0)  # values are logits: the key is their order, and each weighs 1
MASSES = tl.constexpr(1)  # values are masses: the key is their order, and each weighs itself
IDS = tl.constexpr(2)  # values are masses: the key is the id
DIGIT = tl.constexpr(4)


@triton.jit
def _entries(values, ids, start, count, least, KIND: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """Keys and weights, int64, of a block of the list; what is lighter than `least` weighs 0."""
    at = start + tl.arange(0, BLOCK)
    there = at < count
    value = tl.load(values + at, mask=there, other=0.0)
    if KIND == LOGITS:
        key, weight = order(value), there.to(tl.int64)
    else:
        weight = value.to(tl.int64)
        weight = tl.where(weight >= least, weight, 0)
        if KIND == MASSES:
            key = value.to(tl.int32, bitcast=True).to(tl.int64)
        else:
            key = tl.load(ids + at, mask=there, other=0).to(tl.int64)
    return key, weight


@triton.jit
def descend(  # type: ignore[no-untyped-def]
    values, ids, count, wanted, least,
    KIND: tl.constexpr, HIGH: tl.constexpr, LOW: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The largest t (int64), a multiple of 16^LOW below 16^HIGH, such that candidates of key t or
    more weigh `wanted` together; 0 if all together do not."""
    way = tl.arange(0, 16).to(tl.int64)
    t = tl.full((), 0, tl.int64)
    for step in range(HIGH - LOW):
        shift = DIGIT * (HIGH - 1 - step)
        floors = t + (way << shift)
        tail = tl.zeros((16,), tl.int64)
        for start in range(0, count, BLOCK):
            key, weight = _entries(values, ids, start, count, least, KIND, BLOCK)
            tail += tl.sum(tl.where(key[:, None] >= floors[None, :], weight[:, None], 0), 0)
        reached = tl.sum((tail >= wanted).to(tl.int32), 0)
        t += tl.maximum(reached - 1, 0).to(tl.int64) << shift
    return t


@triton.jit
def weigh(values, count, least, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The sum (int64) of the masses that are `least` or more."""
    total = tl.full((), 0, tl.int64)
    for start in range(0, count, BLOCK):
        _, weight = _entries(values, values, start, count, least, MASSES, BLOCK)
        total += tl.sum(weight, 0)
    return total
