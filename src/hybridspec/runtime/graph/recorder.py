"""What a description of launches may say: run, switch, loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from hybridspec.errors import HybridSpecError

Work = Callable[[], None]  # launches on the current stream; reads what varies from the device
Arm = Callable[[int], None]  # work that sets a handle, of 64 bits, itself; 0: there is none to set


class GraphError(HybridSpecError):
    """Launches that cannot be recorded, or a graph that the driver refuses."""


class Recorder(Protocol):
    """Takes launches in their order. Whatever its kind, the same description leaves the same bits.

    Conditions are [] int32 tensors. Work that one of them depends on comes before the verb that
    reads it. A body describes its launches to the recorder it is handed, never to one around it.
    """

    def run(self, work: Work) -> None:
        """Launches without a condition."""

    def switch(
        self,
        index: Tensor,
        bodies: Sequence[Description],
        damaged: Tensor,
        *,
        arm: Arm | None = None,
    ) -> None:
        """Run bodies[index]. An index without a body runs the last one and sets `damaged` to 1.

        arm: runs in front, in place of the kernel that reads `index`: it computes index, sets the
        handle to it, and mends and flags what is out of range (`kernels/arm.cuh`).
        """

    def loop(self, going: Tensor, body: Description, *, arm: Arm | None = None) -> None:
        """Run body while `going` is not 0: read before the first round and at every round's end.

        arm: ends every round, in place of the kernel that reads `going` there: it computes going
        and sets the handle to whether it is 0.
        """


Description = Callable[[Recorder], None]


def check_condition(name: str, condition: Tensor, device: torch.device | None = None) -> None:
    """Refuse what is no condition.

    Raises:
        GraphError: not a [] int32 tensor, or on another device.
    """
    if condition.dtype != torch.int32 or condition.shape != ():
        raise GraphError(
            f"{name} is {condition.dtype} of shape {list(condition.shape)}; expected a single "
            "torch.int32 of shape []."
        )
    if device is not None and condition.device != device:
        raise GraphError(f"{name} is on {condition.device}; expected {device}, where work runs.")


def check_switch(
    index: Tensor,
    bodies: Sequence[Description],
    damaged: Tensor,
    device: torch.device | None = None,
) -> None:
    """Refuse what does not make a switch, on a device if one is given.

    Raises:
        GraphError: it has no bodies, or a condition is none (`check_condition`).
    """
    if not bodies:
        raise GraphError("A switch has no bodies; expected at least one.")
    check_condition("index of a switch", index, device)
    check_condition("damaged of a switch", damaged, index.device)


def name_of(work: Work) -> str:
    """What to call a piece of work in a message."""
    made = getattr(work, "func", work)  # of functools.partial
    return str(getattr(made, "__qualname__", type(made).__name__))
