"""Launches to be described to any recorder: made-up rounds, each with a body that it chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from hybridspec.runtime.graph import Description, Recorder, Work

BODIES = 17


class Rounds:
    """state [] int64 follows from every launch and its order; rounds as long as `left`, each with
    the body that `index` names, which follows from the state.

    launch: runs a function of kernels, or takes it as a node of a graph that is made up.
    """

    def __init__(
        self, device: torch.device | str, launch: Callable[[Work], None] = lambda work: work()
    ) -> None:
        def number(value: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
            return torch.tensor(value, dtype=dtype, device=device)

        self.state, self.scratch = number(1, torch.int64), number(0, torch.int64)
        self.index, self.left, self.going = number(0), number(0), number(0)
        self.damaged, self.rounds = number(0), number(0)
        self.launch = launch

    def set(self, rounds: int, state: int = 1) -> None:
        """Before a launch, on the host."""
        self.state.fill_(state)
        self.left.fill_(rounds)
        self.going.fill_(rounds)
        for t in (self.damaged, self.rounds, self.index):
            t.zero_()

    def values(self) -> tuple[int, ...]:
        """All that may differ afterwards."""
        return tuple(int(t) for t in (self.state, self.index, self.left, self.damaged, self.rounds))

    def mix(self, number: int) -> None:
        """A launch that says it was there."""
        self.launch(lambda: self.state.mul_(31).add_(number))

    def choose(self, size: int = BODIES) -> None:
        """The next index, from the state."""

        def work() -> None:
            self.scratch.copy_(self.state)
            self.scratch.remainder_(size)
            self.index.copy_(self.scratch)

        self.launch(work)

    def count(self) -> None:
        """One round less."""

        def work() -> None:
            self.rounds.add_(1)
            self.left.sub_(1)
            self.going.copy_(self.left)
            self.going.clamp_(min=0)

        self.launch(work)

    def body(self, number: int) -> Description:
        """One of a switch's: every second one has two pieces."""

        def describe(r: Recorder) -> None:
            r.run(partial(self.mix, number))
            if number % 2:
                r.run(partial(self.mix, 1000 + number))

        return describe

    def bodies(self, size: int = BODIES) -> list[Description]:
        """All of a switch."""
        return [self.body(i) for i in range(size)]

    def one(self, r: Recorder) -> None:
        """A round."""
        r.run(self.choose)
        r.switch(self.index, self.bodies(), self.damaged)
        r.run(self.count)

    def all(self, r: Recorder) -> None:
        """A run, with a launch before and after it."""
        r.run(partial(self.mix, 5))
        r.loop(self.going, self.one)
        r.run(partial(self.mix, 7))

    def deep(self, r: Recorder) -> None:
        """A loop in a body of a switch in a loop, with a switch behind the switch."""

        def again(r: Recorder) -> None:
            r.run(partial(self.mix, 3))
            r.run(self.choose)
            r.switch(self.index, self.bodies(2), self.damaged)
            r.run(self.count)

        def inner(r: Recorder) -> None:
            r.loop(self.going, again)

        def outer(r: Recorder) -> None:
            r.run(partial(self.choose, 3))
            r.switch(self.index, [self.body(0), inner, self.body(2)], self.damaged)
            r.switch(self.index, self.bodies(3), self.damaged)
            r.run(self.count)

        r.loop(self.going, outer)
