"""Programmatic dependent launch for Triton kernels (compute capability 9.0 and newer).

A kernel launched `early` may start while the one before it still runs. It calls `take_turn` before
it touches what other kernels write; what it does before then overlaps. In this order, whoever has
not yet taken its turn knows that all kernels but the last are done.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


def has_early(device: torch.device) -> bool:
    """Whether kernels may be launched early there."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9


@triton.jit
def take_turn(EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    """Wait for the kernel before, then let the next one start."""
    if EARLY:
        gdc_wait()
        gdc_launch_dependents()


def options(early: bool) -> dict[str, bool]:
    """What the launcher must be told; nothing where it would not know it."""
    return {"launch_pdl": True} if early else {}
