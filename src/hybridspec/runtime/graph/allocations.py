"""Recorded work allocates nothing: memory of its own would be another's when it is replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hybridspec.runtime.graph.recorder import GraphError


@contextmanager
def nothing_allocated(piece: str, device: torch.device) -> Iterator[None]:
    """Refuse a piece of work, so called, that asks torch for memory of a device.

    All of the process is counted: nothing else may allocate there meanwhile.

    Raises:
        GraphError: it did.
    """
    before = allocated(device)
    yield
    if made := allocated(device) - before:
        raise GraphError(
            f"{piece} asked for memory on {device} {made} times; recorded work writes into memory "
            "that is there before. Use out=, operations in place or a workspace."
        )


def allocated(device: torch.device) -> int:
    """How often torch was asked for memory so far."""
    return int(torch.cuda.memory_stats(device).get("allocation.all.allocated", 0))
