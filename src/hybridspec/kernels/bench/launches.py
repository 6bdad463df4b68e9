"""What launching costs: the target's whole pass under several ways to launch its kernels.

A pass is slower than its kernels one by one: blocks that start early share multiprocessors with
those of the kernel ahead, and with them registers, shared memory and first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch.cuda import CUDAGraph

from hybridspec.kernels.bench.clock import GraphClock
from hybridspec.kernels.bench.forward import build
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.stream.config import Launch

LENGTHS = (1, 6, 16)
NAMES = ("joint", "router", "head", "out", "up", "down")


class Way(NamedTuple):
    """carveout: as `cuda.CARVEOUT`. late: kernels that do not start early. twice: two blocks a
    multiprocessor. gdn: whether it is early."""

    carveout: int = 60
    late: str = ""
    twice: str = ""
    gdn: bool = True

    def launches(self, *, early: bool) -> dict[str, Launch]:
        """Of the kernels by name."""
        return {
            n: Launch(early and n not in self.late.split(), 2 if n in self.twice.split() else 1)
            for n in NAMES
        }


EVERY = " ".join(NAMES)
WAYS = {
    "nothing early": Way(late=EVERY, gdn=False),
    "all early, driver's carveout": Way(-1),
    "all early, 43": Way(43),
    "all early, 57": Way(57),
    "all early": Way(),
    "all early, 70": Way(70),
    "all early, head twice": Way(twice="head"),
    "up late": Way(late="up"),
    "up late, head twice, 57": Way(57, late="up", twice="head"),
    "up and joint twice": Way(twice="up joint head"),
    "up and joint late": Way(late="up joint", twice="head"),
}


def time_launches(s: Setting) -> None:
    """Every way at a few lengths."""
    from hybridspec.kernels import cuda

    p = build(s, s.shape.target())
    lengths, state = p.buffers.lengths, p.slot.checkpoint.clone()
    early = s.early  # elsewhere all ways are one

    def whole() -> None:
        p.unsplit()
        p.commit()

    try:
        for name, way in list(WAYS.items())[: None if early else 1]:
            p.steps.launches = way.launches(early=early)
            p.recurrence.early = way.gdn and early
            whole()
            cuda.carve(way.carveout)
            graph = s.clock.capture([whole]) if isinstance(s.clock, GraphClock) else None
            for w in LENGTHS if early else LENGTHS[:1]:
                lengths.verified.fill_(w)
                lengths.kept.fill_(w)
                p.slot.checkpoint.copy_(state)
                _keep(s, f"pass, {name}, w = {w}", whole, graph)
    finally:
        cuda.carve(cuda.CARVEOUT)


def _keep(s: Setting, name: str, call: Callable[[], None], graph: CUDAGraph | None) -> None:
    us = s.clock.replays(graph, 10, 5) if graph is not None else s.clock([call])
    s.keep({"name": name, "us": round(us, 1)})
