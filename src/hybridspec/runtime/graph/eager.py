"""The law of recorders: everything runs at once, and the host reads conditions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from hybridspec.runtime.graph.recorder import (
    Arm,
    Description,
    Work,
    check_condition,
    check_switch,
)


class Eager:
    """Runs what is described while it is described, on any device. It compiles all kernels on the
    way that it takes, which a recording must find compiled."""

    def run(self, work: Work) -> None:
        """Now."""
        work()

    def switch(
        self,
        index: Tensor,
        bodies: Sequence[Description],
        damaged: Tensor,
        *,
        arm: Arm | None = None,
    ) -> None:
        """One body, now."""
        check_switch(index, bodies, damaged)
        if arm is not None:
            arm(0)
        bodies[chosen(index, len(bodies), damaged)](self)

    def loop(self, going: Tensor, body: Description, *, arm: Arm | None = None) -> None:
        """All rounds, now."""
        check_condition("going of a loop", going)
        while going.item():
            body(self)
            if arm is not None:
                arm(0)


def chosen(index: Tensor, size: int, damaged: Tensor) -> int:
    """The body that an index [] int32 names: out of range the last one, which sets `damaged`."""
    body = int(index)
    if 0 <= body < size:
        return body
    damaged.fill_(1)
    return size - 1
