"""How a product of a few rows is cut."""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 16  # of the tile: one tensor-core instruction, whatever the number of tokens
PROGRAMS = 128  # wanted: one for each multiprocessor of an H200, about


@dataclass(frozen=True, slots=True)
class ProductConfig:
    """cols: of the result in one program. depth: of K in one step. warps and stages as Triton's."""

    cols: int
    depth: int
    warps: int = 4
    stages: int = 4

    @classmethod
    def choose(cls, n: int, k: int, head: int = 0) -> ProductConfig:
        """A cut for a product with w [n, k].

        Weights are read once, so a program needs enough of them in flight (tens of KiB) and the
        GPU enough programs: columns shrink until there are PROGRAMS. Where the input is normalised
        by heads of `head` values, a step holds whole heads, and fewer of them: they are fp32, and
        some cards have 99 KiB of shared memory.
        """
        cols = 64
        while cols > 16 and n // cols < PROGRAMS:
            cols //= 2
        most = 128 if head or cols == 64 else 256
        return cls(cols, max(16, _power(head), min(_power(k), most)))


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
