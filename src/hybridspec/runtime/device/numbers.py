"""The lengths and flags of a run: sixteen numbers on the device, written and read by kernels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.kernels.forward.buffers import Lengths
from hybridspec.kernels.forward.drafter_buffers import DraftLengths


class Numbers(NamedTuple):
    """[] int32 views of one tensor `all` [16].

    position, looked, verified, kept: P, u, w and m of the round, the target's (`Lengths`). held,
    added, place, block: the drafter's (`DraftLengths`); place is the next anchor's position.
    nominal, accepted: w0 and A. room: tokens that may still be emitted. done: 0 while the answer
    goes on, else why it ended (`ring.py`). rounds: how many the answer has had. left: how many this
    launch may still run. going: whether it runs another. damaged: set where a length had no stage.
    """

    all: Tensor
    position: Tensor
    looked: Tensor
    verified: Tensor
    kept: Tensor
    held: Tensor
    added: Tensor
    place: Tensor
    block: Tensor
    nominal: Tensor
    accepted: Tensor
    room: Tensor
    done: Tensor
    rounds: Tensor
    left: Tensor
    going: Tensor
    damaged: Tensor

    @classmethod
    def empty(cls, device: torch.device) -> Numbers:
        """All zero."""
        numbers = torch.zeros(len(NAMES), dtype=torch.int32, device=device)
        return cls(numbers, *numbers.unbind())

    def set(self, **values: int) -> None:
        """Write all of them from the host: those named, and 0 to the others."""
        unknown = values.keys() - set(NAMES)
        assert not unknown, f"no such numbers: {unknown}"
        self.all.copy_(torch.tensor([values.get(name, 0) for name in NAMES], dtype=torch.int32))

    @property
    def target(self) -> Lengths:
        """The target's."""
        return Lengths(self.all[:4])

    @property
    def drafter(self) -> DraftLengths:
        """The drafter's."""
        return DraftLengths(self.all[4:8])


NAMES = Numbers._fields[1:]
