"""Conditions read by the host: straight pieces are recorded, what lies between is Python's.

For drivers whose graphs cannot switch (CUDA < 12.8), and on a CPU, where nothing is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from hybridspec.runtime.graph.allocations import nothing_allocated
from hybridspec.runtime.graph.eager import chosen
from hybridspec.runtime.graph.recorder import (
    Arm,
    Description,
    Recorder,
    Work,
    check_condition,
    check_switch,
    name_of,
)


class Hosted:
    """A recorder that makes one function of a description. Work without a condition in between is
    one straight piece."""

    def __init__(self, straight: Callable[[Sequence[Work]], Work]) -> None:
        """straight: makes one of works that follow each other."""
        self._straight = straight
        self._works: list[Work] = []
        self._steps: list[Work] = []

    @classmethod
    def of(cls, describe: Description, straight: Callable[[Sequence[Work]], Work]) -> Work:
        """All that is described, to be called any number of times."""
        recorder = cls(straight)
        describe(recorder)
        recorder._end_piece()
        return partial(in_order, tuple(recorder._steps))

    def run(self, work: Work) -> None:
        """Part of a straight piece."""
        self._works.append(work)

    def switch(
        self,
        index: Tensor,
        bodies: Sequence[Description],
        damaged: Tensor,
        *,
        arm: Arm | None = None,
    ) -> None:
        """The host waits for the index."""
        check_switch(index, bodies, damaged)
        if arm is not None:
            self.run(partial(arm, 0))
        self._end_piece()
        made = [Hosted.of(body, self._straight) for body in bodies]
        self._steps.append(lambda: made[chosen(index, len(made), damaged)]())

    def loop(self, going: Tensor, body: Description, *, arm: Arm | None = None) -> None:
        """The host waits for `going` every round."""
        check_condition("going of a loop", going)

        def whole(recorder: Recorder) -> None:
            body(recorder)
            if arm is not None:
                recorder.run(partial(arm, 0))

        self._end_piece()
        made = Hosted.of(whole, self._straight)

        def rounds() -> None:
            while going.item():
                made()

        self._steps.append(rounds)

    def _end_piece(self) -> None:
        if self._works:
            self._steps.append(self._straight(tuple(self._works)))
            self._works.clear()


def in_order(works: Sequence[Work]) -> None:
    """One after the other."""
    for work in works:
        work()


def unrecorded(works: Sequence[Work]) -> Work:
    """A straight piece that is run as it is."""
    return partial(in_order, works)


def recorded(works: Sequence[Work]) -> Work:
    """A straight piece as a graph of its own, captured on the current stream, which must be a side
    stream.

    Raises:
        GraphError: work allocates.
    """
    device = torch.device("cuda", torch.cuda.current_device())
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin(capture_error_mode="relaxed")
    try:
        for work in works:
            with nothing_allocated(f"A piece ({name_of(work)})", device):
                work()
    except BaseException:
        with contextlib.suppress(RuntimeError):  # the first error is the one to tell
            graph.capture_end()
        raise
    graph.capture_end()
    return partial(_replay, graph, works)


def _replay(graph: torch.cuda.CUDAGraph, kept: Sequence[Work]) -> None:
    """kept: what the kernels' arguments live in."""
    graph.replay()
