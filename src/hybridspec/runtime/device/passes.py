"""A target's and a drafter's passes over one sequence, joined: what one leaves, the other reads."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.drafter import DrafterPass
from hybridspec.kernels.forward.drafter_buffers import DrafterBuffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.model.gdn import Verifier
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.drafter_state import DrafterSlot
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.runtime.state import TargetSlot


class Passes(NamedTuple):
    """The drafter's answer is the target's input, the target's features are the drafter's, and the
    lengths of both are the run's numbers: nothing is copied from one to the other. anchor [1]
    int64: where the last emitted token is awaited. block: rows of a block that always runs whole, 0
    where it is as long as the drafts wanted."""

    target: TargetPass
    drafter: DrafterPass | None
    anchor: Tensor
    block: int = 0

    @classmethod
    def plain(
        cls, target: LaunchedTarget, slot: TargetSlot, verifier: Verifier, memory: Memory
    ) -> Passes:
        """Without a drafter."""
        return cls(_target(target, slot, verifier, memory), None, memory.answer.tokens[:1])

    @classmethod
    def drafting(
        cls, target: LaunchedTarget, slot: TargetSlot, verifier: Verifier, memory: Memory,
        drafter: LaunchedDrafter, drafter_slot: DrafterSlot,
    ) -> Passes:  # fmt: skip
        """With one, whose taps the slot must have."""
        run = _target(target, slot, verifier, memory)
        own = DrafterBuffers.empty(drafter.config, drafter_slot, len(drafter.weights.head))
        buffers = replace(
            own,
            lengths=memory.numbers.drafter,
            features=run.buffers.features,
            answer=memory.answer,
        )
        drafts = DrafterPass(drafter, drafter.weights, drafter_slot, buffers, early=drafter.early)
        block = 0 if drafter.causal else drafter.config.block_size
        return cls(run, drafts, buffers.tokens[:1], block)


def _target(
    target: LaunchedTarget, slot: TargetSlot, verifier: Verifier, memory: Memory
) -> TargetPass:
    config, device, dtype = target.config, target.device, target.dtype
    parts, rows = blocks(config, device.type, dtype), slot.keys.shape[2]
    own = Buffers.empty(config, len(slot.tap_layers), parts, rows, device, dtype)
    buffers = replace(own, lengths=memory.numbers.target, tokens=memory.answer.tokens)
    return TargetPass(target, target.weights, slot, buffers, early=target.early, verifier=verifier)
