"""Philox-4x32-10 in torch integers: a random number depends on (seed, position), not on history.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

import torch
from torch import Tensor

Words = tuple[Tensor, Tensor, Tensor, Tensor]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
MASK = 0xFFFFFFFF


def philox(counter: Words, key: tuple[int | Tensor, int | Tensor]) -> Words:
    """Philox-4x32-10 of each counter.

    Args:
        counter: four int64 tensors of one shape, each a 32-bit word in [0, 2^32).
        key: two 32-bit words, as ints or as int64 tensors that broadcast.

    Returns:
        Four int64 tensors of that shape, each a random word in [0, 2^32).
    """
    k0, k1 = key
    for _ in range(ROUNDS):
        c0, c1, c2, c3 = counter
        hi0, lo0 = _multiply(c0, MULTIPLIERS[0])
        hi1, lo1 = _multiply(c2, MULTIPLIERS[1])
        counter = (hi1 ^ c1 ^ k0, lo1, hi0 ^ c3 ^ k1, lo0)
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return counter


def uniform(seed: int | Tensor, positions: Tensor, stream: int = 0) -> Tensor:
    """One uniform number for each position, with 53 random bits.

    The counter is (position, 0, stream) and the key is the seed, so the number depends on these
    three alone and is the same on every device.

    Args:
        seed: 64 bits, as an int or as an int64 tensor holding the same bits.
        positions: int64 tensor of any shape, not negative.
        stream: 32 bits that set independent uses of one seed apart.

    Returns:
        float64 tensor of the shape of `positions`, in [0, 1).
    """
    zero = torch.zeros_like(positions)
    counter = (positions & MASK, positions >> 32, zero, zero + stream)
    high, low, _, _ = philox(counter, (seed & MASK, (seed >> 32) & MASK))
    return ((high << 21) | (low >> 11)).double() * 2.0**-53


def _multiply(word: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of a 32 x 32 bit product; 16-bit halves keep int64 from overflowing."""
    lower, upper = word * (factor & 0xFFFF), word * (factor >> 16)
    return (upper + (lower >> 16)) >> 16, (lower + ((upper & 0xFFFF) << 16)) & MASK
