"""How the expert kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """cols: of the result in one program. depth: of the sum in one step. Then Triton's options."""

    cols: int
    depth: int
    warps: int = 4
    stages: int = 4

    @classmethod
    def up(cls, width: int, hidden: int) -> ExpertConfig:
        """32 columns of gate and of up: eight experts of `width` 512 are 128 programs."""
        return cls(min(32, max(16, _power(width))), max(16, min(128, _power(hidden))))

    @classmethod
    def down(cls, hidden: int, width: int) -> ExpertConfig:
        """A program walks all experts for its columns of the hidden size: 16 of 2,048 are 128
        programs, one for each multiprocessor of an H200, about."""
        return cls(16, max(16, min(256, _power(width))))


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
