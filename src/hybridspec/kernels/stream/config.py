"""Where the streaming kernels serve, and how many blocks they run."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

WARPS, THREADS, ROWS, COLS = 8, 256, 16, 16  # as in tile.cuh
HEAD = 128  # values of a head that `gated_product` takes: a step of dense.cu
STEP = 32 << 10  # bytes of weights in a step of a walk over K, for a whole block
STATIC = 24 << 10  # bytes of shared memory that the sources declare with a size, at most
# Steps of weights that a lane of the experts' kernels has under way to registers. With more of them
# `up` leaves `down` no room; `down` is faster with six, though nothing then fits beside it.
UP, DOWN = 2, 6


def depth_serves(w: Tensor, k: int) -> bool:
    """Whether weights of that dtype and place can be walked along K = k by `dense.cu`: in parts of
    1,024, of which three, or an even number by twos, take turns in registers."""
    return w.dtype == torch.bfloat16 and k % (1024 if k <= 3072 else 2048) == 0 and fits(
        w.device, 2 * STEP + STATIC
    )  # fmt: skip


def rows_serve(w: Tensor, k: int) -> bool:
    """As `depth_serves`, by `experts.cu`, which keeps sixteen rows of K values."""
    return w.dtype == torch.bfloat16 and k % 1024 == 0 and fits(w.device, rows_bytes(k) + STATIC)


def rows_bytes(k: int) -> int:
    """Shared memory for sixteen rows of K values, each warp's share padded by 32."""
    return WARPS * ROWS * (k // WARPS + 32) * 2


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
    deep: steps of `dense.cu` under way together; fewer where a block may not have the memory."""

    early: bool = False
    each: int = 1
    deep: int = 3


PLAIN = Launch()


def blocks(device: torch.device, tiles: int, launch: Launch) -> int:
    """Blocks of a launch over so many tiles."""
    return min(tiles, launch.each * _properties(device).multi_processor_count)


def deep(device: torch.device, launch: Launch) -> int:
    """Steps under way together. Bits do not depend on them."""
    most = (_properties(device).shared_memory_per_block_optin - STATIC) // STEP
    return min(launch.deep, most)


@cache
def _properties(device: torch.device):  # type: ignore[no-untyped-def]  # a class of torch's own
    return torch.cuda.get_device_properties(device)
