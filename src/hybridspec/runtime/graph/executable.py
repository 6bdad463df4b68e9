"""From a description to something that can be launched."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from hybridspec.kernels.support import installed, once
from hybridspec.runtime.graph.hosted import Hosted, recorded, unrecorded
from hybridspec.runtime.graph.recorder import Description, Work

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one CUDA graph with all its bodies.

    kernels: nodes that are kernels, arming ones included. early: programmatic edges between them.
    capture_ms, instantiate_ms: time to describe it, and to instantiate and upload it. memory: bytes
    of the device that the latter took.
    """

    kernels: int
    early: int
    capture_ms: float
    instantiate_ms: float
    memory: int


class Executable:
    """Recorded launches. figures: None if they are led by the host."""

    def __init__(self, start: Work, figures: Figures | None = None, kept: object = None) -> None:
        """start: queues all of it on the current stream. kept: what its kernels read and write."""
        self._start, self._kept = start, kept
        self.figures = figures

    def launch(self) -> None:
        """Run it on the current stream: queued, or led by the host. A next launch may be queued
        before this one has ended; it runs after it."""
        self._start()

    replay = launch  # as a torch.cuda.CUDAGraph's


def record(
    describe: Description, device: torch.device | str, *, by_host: bool = False,
    empty_first: bool = False,
) -> Executable:  # fmt: skip
    """Record what is described, without running any of it.

    All its kernels must be compiled and loaded, of every body: run the description through `Eager`
    first. It is not done here, for it changes the state that the work is about. Work allocates
    nothing and waits for nobody.

    On a CUDA device it is one graph that needs no host; where the driver has no SWITCH nodes (CUDA
    < 12.8), and on other devices, the host reads conditions and launches what lies between.

    Args:
        describe: called once. Tensors that its work uses must stay where they are; those that its
            functions hold are kept.
        device: of all work and conditions.
        by_host: let the host read conditions on any driver: to compare, and to test that form.
        empty_first: bodies begin with an empty node, to measure what that does.

    Raises:
        GraphError: work allocates or cannot be captured, a condition is none, the driver refuses.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return Executable(Hosted.of(describe, unrecorded))
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    with torch.cuda.stream(torch.cuda.Stream(device)):
        reason = "so it was asked for" if by_host else unable()
        if reason is None:
            return _as_graph(describe, device, empty_first)
        once(f"The host reads the conditions of recorded rounds, which takes time: {reason}.")
        return Executable(Hosted.of(describe, recorded))


def unable() -> str | None:
    """Why graphs cannot hold conditions here, as the end of a sentence; None if they can."""
    if not installed("cuda.bindings"):
        return "cuda-bindings is not installed"
    from hybridspec.runtime.graph import nodes

    version = nodes.driver_version()
    if version >= nodes.NEWEST_NEEDED:
        return None
    has, needed = (".".join(map(str, v)) for v in (version, nodes.NEWEST_NEEDED))
    return f"the driver serves CUDA {has}, and graphs can switch from {needed} on"


def _as_graph(describe: Description, device: torch.device, empty_first: bool) -> Executable:
    """On the current stream, a side stream of the device."""
    from hybridspec.runtime.graph import nodes
    from hybridspec.runtime.graph.arming import Arming
    from hybridspec.runtime.graph.recording import Recording, Site

    stream = torch.cuda.current_stream(device)
    free = partial(_free, stream)
    free()  # also makes the device's context the thread's
    site = Site(device, stream.cuda_stream, Arming.on(device), empty_first)
    graph = nodes.new_graph()  # a capture that fails may end it: then it is not destroyed here
    _, capture_ms = _timed(lambda: Recording(site, graph).take(describe))
    kernels, early = nodes.count(site.graphs)
    before = free()
    made, instantiate_ms = _timed(lambda: nodes.instantiate(graph, site.stream))
    figures = Figures(kernels, early, capture_ms, instantiate_ms, before - free())
    nodes.destroy_graph(graph)

    def start() -> None:
        nodes.launch(made, torch.cuda.current_stream(device).cuda_stream)

    executable = Executable(start, figures, (describe, site.kept))
    weakref.finalize(executable, nodes.destroy, made)
    return executable


def _free(stream: torch.cuda.Stream) -> int:
    """Bytes of a stream's device that nobody has, once its work is done."""
    stream.synchronize()
    return torch.cuda.mem_get_info(stream.device)[0]


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and its time in ms."""
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1e3
