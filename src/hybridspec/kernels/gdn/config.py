"""How the GDN kernels are cut."""

from __future__ import annotations

from dataclasses import dataclass


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
        rows = min(32, _power(dv))
        return cls(rows, max(1, min(4, rows * _power(dk) // 1024)))

    def cols(self, dk: int) -> int:
        """A whole row, padded to a power of two."""
        return _power(dk)


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
