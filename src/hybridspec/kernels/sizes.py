"""Arithmetic of sizes that all configurations share."""

from __future__ import annotations


def power(n: int) -> int:
    """The least power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()
