"""A sum cut over several programs, ended by whichever of them arrives last.

Each program leaves its part in memory and counts itself. The last one adds all parts in their
order, so that the bits depend on the cut alone and not on who came when.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor


class Workspace(NamedTuple):
    """Where parts meet: parts [n] fp32 and arrived [n] int32, zero between kernels.

    One serves all kernels of a stream, for each waits for the one before it.
    """

    parts: Tensor
    arrived: Tensor

    @classmethod
    def empty(
        cls, device: torch.device | str, parts: int = 1 << 20, counters: int = 4096
    ) -> Workspace:
        """By default 4 MiB of parts: enough for a hidden size of 4,096 in 16 parts."""
        return cls(
            torch.empty(parts, device=device),
            torch.zeros(counters, dtype=torch.int32, device=device),
        )

    def check(self, parts: int, counters: int) -> None:
        """Refuse a cut that does not fit.

        Raises:
            ValueError: more parts or counters are needed than there are.
        """
        if parts > self.parts.numel() or counters > self.arrived.numel():
            raise ValueError(
                f"A kernel needs a workspace of {parts} parts and {counters} counters; this one "
                f"has {self.parts.numel()} and {self.arrived.numel()}. Make a larger one."
            )


@triton.jit
def is_last(counter, count):  # type: ignore[no-untyped-def]
    """Whether this program is the last of `count` to arrive. What the others stored is then there
    to be read (past the first-level cache), and the counter is zero again."""
    tl.debug_barrier()  # all threads have stored before one of them counts
    last = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == count - 1
    if last:
        tl.store(counter, 0)
    return last
