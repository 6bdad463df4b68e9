"""What the conditions of a graph cost: a SWITCH over bodies of many kernels, a WHILE's round.

A cost is the time of a graph less that of one that launches the same kernels without conditions.
Variants say where it goes: bodies that begin with an empty node, kernels that make the condition
and arm the node themselves, conditions read by the host.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from hybridspec.kernels.bench.clock import GraphClock
from hybridspec.kernels.bench.setting import Setting
from hybridspec.runtime.graph import Arm, Description, Eager, Figures, Recorder, record

BODIES, KERNELS, ROUNDS = 17, 400, 8


def time_graphs(s: Setting) -> None:
    """All costs; without a GPU a small case, led by the host."""
    sizes = (BODIES, KERNELS) if s.device.type == "cuda" else (3, 2)
    time_switch(Board(s, *sizes))
    time_loop(Board(s, *sizes))


class Board:
    """Conditions on the device, the launches that make them, and kernels that do next to nothing.

    rounds: of a loop. On a CPU torch makes the conditions.
    """

    def __init__(self, s: Setting, bodies: int, kernels: int, rounds: int = ROUNDS) -> None:
        self.setting, self.size, self.kernels, self.rounds = s, bodies, kernels, rounds
        self.index, self.damaged, self.left, self.going = (s.scalar(0) for _ in range(4))
        self.tiny = s.empty(1024)
        self.chosen = bodies // 2

    def many(self) -> None:
        """A body's launches."""
        for _ in range(self.kernels):
            self.tiny.add_(1)

    def choose(self, handle: int = 0, *, early: bool = False) -> None:
        """Make the index; with a handle, arm its node."""
        if self.setting.device.type != "cuda":
            self.index.fill_(self.chosen)
            return
        arguments = (self.index, self.chosen, self.size, self.damaged)
        self._launch("choose", handle, arguments, early)

    def count(self, handle: int = 0, *, early: bool = False) -> None:
        """End a round; with a handle, arm its node."""
        if self.setting.device.type != "cuda":
            self.left.sub_(1)
            self.going.copy_(self.left)
            return
        self._launch("count", handle, (self.left, self.going), early)

    def start(self) -> None:
        """Before a loop, in its graph."""
        self.left.fill_(self.rounds)
        self.going.fill_(self.rounds)

    def bodies(self) -> list[Description]:
        """A switch's."""
        return [lambda r: r.run(self.many)] * self.size

    def switch(self, r: Recorder, arm: Arm | None = None) -> None:
        """Make the index, then choose; with an arm in one kernel."""
        if arm is None:
            r.run(self.choose)
        r.switch(self.index, self.bodies(), self.damaged, arm=arm)

    def straight(self, r: Recorder) -> None:
        """What a switch launches, without one."""
        r.run(self.choose)
        r.run(self.many)

    def unrolled(self, r: Recorder, body: Description) -> None:
        """What a loop launches, without one."""
        r.run(self.start)
        for _ in range(self.rounds):
            body(r)
            r.run(self.count)

    def loop(self, r: Recorder, body: Description, arm: Arm | None = None) -> None:
        """Rounds that end in counting; with an arm in the kernel that counts."""

        def whole(r: Recorder) -> None:
            body(r)
            if arm is None:
                r.run(self.count)

        r.run(self.start)
        r.loop(self.going, whole, arm=arm)

    def time(self, name: str, describe: Description, **options: bool) -> float:
        """Microseconds of one launch, kept with the graph's figures."""
        s = self.setting
        describe(Eager())
        made = record(describe, s.device, **options)
        us = s.clock.replays(made) if isinstance(s.clock, GraphClock) else s.clock([made.launch])
        s.keep({"name": f"graph, {name}", "us": round(us, 2)} | _told(made.figures))
        return us

    def cost(self, name: str, us: float) -> None:
        """Keep what a condition costs."""
        self.setting.keep({"name": f"graph, cost of {name}", "us": round(us, 2)})

    def _launch(self, name: str, handle: int, arguments: tuple[Any, ...], early: bool) -> None:
        from hybridspec.kernels import cuda

        kernel = cuda.load(__package__, "graphs.cu", name, (), 1, self.setting.device.index)
        kernel.launch((1,), (cuda.Wide(handle), *arguments), early=early)


def time_switch(b: Board) -> None:
    """A SWITCH by bodies, by the chosen one, and by who arms it."""
    about, most = f"{b.kernels} kernels", b.size
    plain = b.time(f"{about}, no condition", b.straight)

    def costs(name: str, describe: Description, **options: bool) -> None:
        us = b.time(f"{about} behind {name}", describe, **options)
        b.cost(name, us - plain)

    for size, chosen in sorted({(1, 0), (2, 0), (2, 1), (most, 0), (most, most - 1)}):
        b.size, b.chosen = size, chosen
        costs(f"a SWITCH of {size}, body {chosen}", b.switch)
    name = f"a SWITCH of {most}"
    costs(f"{name} with empty first nodes", b.switch, empty_first=True)
    costs(f"{name} armed by the kernel before", lambda r: b.switch(r, b.choose))
    if b.setting.early:
        arm = partial(b.choose, early=True)
        costs(f"{name} armed by the kernel before, early", lambda r: b.switch(r, arm))
    costs(f"{name} read by the host", b.switch, by_host=True)
    us = b.time(f"{about} behind {name}, twice in a row", twice(b.switch))
    b.cost(f"{name}, each of two", us / 2 - plain)


def time_loop(b: Board) -> None:
    """A WHILE's round by what is in it, and by who arms it."""
    rounds = b.rounds

    def costs(
        name: str, body: Description, arm: Arm | None = None, *, alike: Description | None = None,
        **options: bool,
    ) -> None:  # fmt: skip
        """alike: the same without conditions, where body has some."""
        plain = b.time(
            f"{rounds} rounds of {name}, no conditions",
            lambda r: b.unrolled(r, alike or body),
        )
        us = b.time(f"{rounds} rounds of {name}", lambda r: b.loop(r, body, arm), **options)
        b.cost(f"a WHILE's round of {name}", (us - plain) / rounds)

    costs("one kernel", nothing)
    costs("one kernel that arms", nothing, b.count)
    if b.setting.early:
        costs("one kernel that arms, early", nothing, partial(b.count, early=True))
    costs("one kernel, read by the host", nothing, by_host=True)
    costs(f"{b.kernels} kernels", lambda r: r.run(b.many))
    costs("two SWITCHes", twice(b.switch), alike=twice(b.straight))
    b.rounds = 0
    b.time("0 rounds", lambda r: b.loop(r, nothing))


def nothing(r: Recorder) -> None:
    """A body without launches."""


def twice(describe: Description) -> Description:
    """A description, two times in a row."""

    def both(r: Recorder) -> None:
        describe(r)
        describe(r)

    return both


def _told(figures: Figures | None) -> dict[str, float]:
    """What a record says of them."""
    if figures is None:
        return {}
    return {
        "kernels": figures.kernels, "early": figures.early,
        "capture_ms": round(figures.capture_ms, 1),
        "instantiate_ms": round(figures.instantiate_ms, 1),
        "mib": round(figures.memory / 2**20, 2),
    }  # fmt: skip
