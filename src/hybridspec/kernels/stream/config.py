"""Where the streaming kernels serve, and how many blocks they run."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

WARPS, THREADS, ROWS, COLS = 8, 256, 16, 16  # as in tile.cuh
HEAD = 128  # values of a head that `gated_product` takes: a step of dense.cu
STATIC = 20 << 10  # bytes of shared memory that the sources declare with a size, at most


def rows_bytes(k: int) -> int:
    """Shared memory for sixteen rows of K values, each warp's share padded by 32."""
    return WARPS * ROWS * (k // WARPS + 32) * 2


def depth_serves(w: Tensor, k: int) -> bool:
    """Whether weights of that dtype and place can be walked along K = k."""
    return w.dtype == torch.bfloat16 and k % 1024 == 0 and fits(w.device, rows_bytes(k) + STATIC)


def width_serves(width: int) -> bool:
    """Whether an expert's width divides among eight warps by two chunks of 32."""
    return width % 512 == 0


def fits(device: torch.device, nbytes: int) -> bool:
    """Whether a block may have that much shared memory there, on a GPU with bf16 tensor cores."""
    if device.type != "cuda" or torch.cuda.get_device_capability(device)[0] < 8:
        return False
    return nbytes <= _properties(device).shared_memory_per_block_optin


class Launch(NamedTuple):
    """How a kernel is launched. early: as in `kernels/early.py`. each: blocks a multiprocessor.
    alone: with so much shared memory that a second block does not fit beside one."""

    early: bool = False
    each: int = 1
    alone: bool = False


PLAIN = Launch()


def blocks(device: torch.device, tiles: int, launch: Launch) -> int:
    """Blocks of a launch over so many tiles."""
    return min(tiles, launch.each * _properties(device).multi_processor_count)


def room(k: int, device: torch.device, launch: Launch) -> int:
    """Shared memory to ask for with K = k."""
    if not launch.alone:
        return rows_bytes(k)
    p = _properties(device)
    half = p.shared_memory_per_multiprocessor // 2 - (15 << 10)  # the sources declare 16 at least
    return max(rows_bytes(k), min(half, p.shared_memory_per_block_optin - STATIC))


@cache
def _properties(device: torch.device):  # type: ignore[no-untyped-def]  # a class of torch's own
    return torch.cuda.get_device_properties(device)
