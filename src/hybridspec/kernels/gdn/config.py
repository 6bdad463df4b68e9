"""How the GDN kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from hybridspec.kernels.sizes import power


@dataclass(frozen=True, slots=True)
class GDNConfig:
    """rows: of a head's state [dv, dk] in one program. warps: of 32 threads that share them."""

    rows: int
    warps: int

    @classmethod
    def choose(cls, dv: int, dk: int) -> GDNConfig:
        """A cut for heads of this size.

        A state row must stay in registers over all tokens: rows x dk floats on 32 x warps threads
        are 32 floats a thread here. 32 heads of 128 rows then give 128 programs, about one for each
        multiprocessor of an H200.
        """
        rows = min(32, power(dv))
        return cls(rows, max(1, min(4, rows * power(dk) // 1024)))

    def cols(self, dk: int) -> int:
        """A whole row, padded to a power of two."""
        return power(dk)


@dataclass(frozen=True, slots=True)
class ChunkConfig:
    """Of `chunked.py`. rows: of a state in one program of the scan. cols: of dv in one program of
    the outputs. precision: of products of fp32. scan_warps, scan_stages: Triton's, of the scan;
    warps: of the other two."""

    rows: int
    cols: int
    precision: str = "bf16x3"
    scan_warps: int = 4
    scan_stages: int = 1
    warps: int = 4

    @classmethod
    def choose(cls, dk: int, dv: int, dtype: torch.dtype, *, roomy: bool = False) -> ChunkConfig:
        """Four warps: with eight, Triton 3.6 makes products of 64 rows for sm_90 that read shared
        memory beyond its end. 32 rows of a state on a `roomy` card (9.0 and newer): 128 programs
        for 32 heads of 128; elsewhere they do not fit four warps' registers, and it is 16.

        Three products for one: a single one of tf32 leaves errors of 1e-3 in states, and ten times
        as much where keys repeat, which is all that the tolerances allow. Three of bf16 leave 1e-5,
        of tf32 1e-6 at twice the time: for float32 models.
        """
        precision = "tf32x3" if dtype == torch.float32 else "bf16x3"
        return cls(min(32 if roomy else 16, dv), min(64, dv), precision)
