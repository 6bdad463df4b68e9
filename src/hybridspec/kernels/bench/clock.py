"""How long calls take: replays of a CUDA graph, or one run where there is no GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

SAMPLES = 20
REPLAYS = 5  # in one sample


class Clock:
    """Called with calls in a row, it gives the microseconds of one of them."""

    def __call__(self, calls: Sequence[Callable[[], None]]) -> float:
        """Without a GPU, one run of the first: an order of magnitude."""
        start = time.perf_counter()
        calls[0]()
        return (time.perf_counter() - start) * 1e6


class GraphClock(Clock):
    """The median over SAMPLES of REPLAYS of one graph of all calls."""

    def __call__(self, calls: Sequence[Callable[[], None]]) -> float:
        """Each call has run once before the capture, so that nothing is compiled in it."""
        return self.replays(self.capture(calls)) / len(calls)

    def capture(self, calls: Sequence[Callable[[], None]]) -> torch.cuda.CUDAGraph:
        """One graph of all calls."""
        calls[0]()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph

    def replays(self, graph: torch.cuda.CUDAGraph) -> float:
        """Microseconds of one replay."""
        for _ in range(3):
            graph.replay()
        samples = []
        for _ in range(SAMPLES):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(REPLAYS):
                graph.replay()
            end.record()
            end.synchronize()
            samples.append(1000 * start.elapsed_time(end) / REPLAYS)
        return statistics.median(samples)
