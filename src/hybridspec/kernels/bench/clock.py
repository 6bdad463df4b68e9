"""How long calls take: replays of a CUDA graph, or one run where there is no GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch

SAMPLES, REPLAYS = 30, 10  # the paper's (D.2): the median of 30 samples of 10 replays
MEANS = 3  # samples of a mean over many rounds

Calls = Sequence[Callable[[], None]]
Timing = Callable[[int | None], float]


class Clock:
    """Called with calls in a row, it gives the microseconds of one of them."""

    def __call__(self, calls: Calls) -> float:
        """Without a GPU, one run of the first: an order of magnitude."""
        return self.timing(calls)(None)

    def timing(self, calls: Calls) -> Timing:
        """As a call, to be asked for several times while data on the device changes: the
        microseconds of one of them, or their mean over so many rounds."""

        def once(_: int | None) -> float:
            start = time.perf_counter()
            calls[0]()
            return (time.perf_counter() - start) * 1e6

        return once


class GraphClock(Clock):
    """The median over SAMPLES of REPLAYS of one graph of all calls."""

    def timing(self, calls: Calls) -> Timing:
        """The graph is captured once."""
        graph, count = self.capture(calls), len(calls)

        def replayed(rounds: int | None) -> float:
            if rounds is None:
                return self.replays(graph) / count
            return self.replays(graph, MEANS, max(1, rounds // count)) / count

        return replayed

    def capture(self, calls: Calls) -> torch.cuda.CUDAGraph:
        """One graph of all calls. The first has run before, so that nothing is compiled in it."""
        calls[0]()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph

    def replays(
        self, graph: torch.cuda.CUDAGraph, samples: int = SAMPLES, replays: int = REPLAYS
    ) -> float:
        """Microseconds of one replay: the median of the samples' means."""
        for _ in range(3):
            graph.replay()
        taken = []
        for _ in range(samples):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(replays):
                graph.replay()
            end.record()
            end.synchronize()
            taken.append(1000 * start.elapsed_time(end) / replays)
        return statistics.median(taken)
