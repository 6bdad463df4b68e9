"""How the head is cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.sizes import power


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """cols: tokens of the vocabulary in one program. depth: of K in one step. warps and stages as
    Triton's. joined: the last program to arrive ends all rows, else a second kernel does, one
    program of `end_warps` a row."""

    cols: int
    depth: int
    warps: int = 4
    stages: int = 4
    joined: bool = False
    end_warps: int = 8

    @classmethod
    def choose(cls, vocabulary: int, k: int) -> HeadConfig:
        """A cut for w [vocabulary, k].

        64 columns and depth 128, as measured for the product alone: 240 us, against 238 of a copy.
        Thousands of programs share an H200's 132 multiprocessors, so no two need be of one size.
        """
        return cls(max(16, min(64, power(vocabulary))), max(16, min(128, power(k))))
