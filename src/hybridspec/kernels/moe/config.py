"""How the expert kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass

from hybridspec.kernels.linear.config import ProductConfig
from hybridspec.kernels.sizes import power


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
        return cls(min(32, max(16, power(width))), max(16, min(128, power(hidden))))

    @classmethod
    def down(cls, hidden: int, width: int, experts: int) -> ExpertConfig:
        """64 columns of 2,048 and eight groups beside the shared expert are 288 programs, which
        hold three steps of 16 KiB in flight each: two a multiprocessor of an H200."""
        groups = min(8, power(experts))
        return cls(max(16, min(64, power(hidden) // 32)), max(16, min(128, power(width))),
                   groups=groups)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TileConfig:
    """Of grouped products of many rows: rows and cols of a tile (of gate and up together, where
    there are both), depth of a step."""

    rows: int
    cols: int
    depth: int
    warps: int = 4
    stages: int = 3

    @classmethod
    def choose(cls, rows: int, groups: int, nbytes: int) -> TileConfig:
        """Rows for a mean group, so that few of a tile stay empty: 128 for the 256 rows of 8,192
        tokens and 256 experts. A step is 128 bytes of a row, so three stages of 128 x 128 are 96
        KiB: as much as a card with 99 KiB takes. In fp32, where a step is three products, a quarter
        of that tile fills the registers."""
        most = 256 // nbytes
        size = max(16, min(most, power(rows // max(1, groups))))
        return cls(size, most, 128 // nbytes, warps=8 if size == most else 4)


def router(experts: int, hidden: int) -> ProductConfig:
    """A router is small: what counts is that its weights are under way at once. 17 tiles of 16
    columns in 8 parts are 136 programs of one step."""
    depth = max(16, min(256, power(hidden) // 8))
    return ProductConfig(16, depth, split=max(1, min(8, hidden // depth)))
