"""How the expert kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.linear.config import ProductConfig


@dataclass(frozen=True, slots=True)
class ExpertConfig:
    """cols: of the result in one program. depth: of the sum in one step. groups: of expert ids,
    each a program's (`down` only). Then Triton's options."""

    cols: int
    depth: int
    warps: int = 4
    stages: int = 4
    groups: int = 1

    @classmethod
    def up(cls, width: int, hidden: int) -> ExpertConfig:
        """32 columns of gate and of up: eight experts of `width` 512 are 128 programs, which hold
        three steps of 16 KiB in flight each."""
        return cls(min(32, max(16, _power(width))), max(16, min(128, _power(hidden))))

    @classmethod
    def down(cls, hidden: int, width: int, experts: int) -> ExpertConfig:
        """64 columns of 2,048 and eight groups beside the shared expert are 288 programs, which
        hold three steps of 16 KiB in flight each: two a multiprocessor of an H200."""
        groups = min(8, _power(experts))
        return cls(max(16, min(64, _power(hidden) // 32)), max(16, min(128, _power(width))),
                   groups=groups)  # fmt: skip


def router(experts: int, hidden: int) -> ProductConfig:
    """A router is small: what counts is that its weights are under way at once, and that the last
    program has few parts to add. 17 tiles of 16 columns in 4 parts are 68 programs of two steps.
    The last one holds 16 rows of experts in registers: 8 warps, two rows each."""
    return ProductConfig(16, max(16, min(256, _power(hidden) // 4)), warps=8, split=4)


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
