"""How a product of a few rows is cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.sizes import power

ROWS = 16  # of the tile: one tensor-core instruction, whatever the number of tokens
GROUP = 16  # columns that share a sum of squares: the narrowest tile
PART = 512  # of K, at least: a part's sums are written and read again
PROGRAMS = 128  # wanted: one for each multiprocessor of an H200, about


@dataclass(frozen=True, slots=True)
class ProductConfig:
    """cols: of the result in one program. depth: of K in one step. split: parts of K, each a
    program's. warps and stages as Triton's."""

    cols: int
    depth: int
    warps: int = 4
    stages: int = 4
    split: int = 1

    @classmethod
    def choose(cls, n: int, k: int, head: int = 0) -> ProductConfig:
        """A cut for a product with w [n, k].

        Weights are read once, so the GPU needs enough programs with tens of KiB in flight each,
        and a program enough columns to outweigh the input's tile, which each reads for itself.
        Where 64 columns make too few programs, they become 32 and K is split, in parts of at least
        512, until there are two programs a multiprocessor. Where the input comes in heads of `head`
        values, a step is a head.
        """
        cols = 64 if n >= 64 * PROGRAMS else 32 if n >= 1024 else 16
        return cls(cols, head or max(16, min(128, power(k))), split=_split(-(-n // cols), k))

    @classmethod
    def pair(cls, n: int, k: int) -> ProductConfig:
        """A cut for gate and up [2 n, k] side by side: 32 columns of each are 64 of weights; 6,144
        of them make 192 programs."""
        return cls(min(32, max(16, power(n))), max(16, min(128, power(k))))


def _split(tiles: int, k: int) -> int:
    parts = 1
    while tiles * parts < 2 * PROGRAMS and k >= 2 * parts * PART and parts < 8:
        parts *= 2
    return parts if tiles < PROGRAMS else 1
