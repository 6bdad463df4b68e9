"""Recorded work: a function of launches as one CUDA graph."""

from __future__ import annotations

from collections.abc import Callable

import torch


class Recorded:
    """A function without arguments whose launches are recorded at its first call and replayed
    after it. It must read all that varies from the device, allocate nothing and return nothing."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """The first call runs the work itself, which compiles what is not compiled yet, and then
        records it without running it. A replay begins when all before it has ended; so must the
        first call, whose kernels may read lengths ahead of their turn."""
        if self._graph is not None:
            self._graph.replay()
            return
        torch.cuda.synchronize()
        self._work()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        # Another thread may poll a run of its own meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._work()
        self._graph = graph
