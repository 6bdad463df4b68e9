"""The state at a launch's start, for an answer that ended before the device did."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from hybridspec.runtime.drafter_state import DrafterSlot
from hybridspec.runtime.state import TargetSlot, W


class Snapshot:
    """Copies of what rounds overwrite: GDN states, convolution columns, the drafter's ring.

    Keys and values of earlier tokens stay where they are, and those of later ones are overwritten.
    """

    def __init__(
        self, slot: TargetSlot, drafter_slot: DrafterSlot | None, beside: Iterable[Tensor] = ()
    ) -> None:
        """beside: what else rounds change."""
        history = slot.conv.shape[1] - W
        self._live: list[Tensor] = [slot.checkpoint, slot.conv[:, :history], *beside]
        if drafter_slot is not None:
            self._live.append(drafter_slot.ring)
        with torch.inference_mode(False):
            self._kept = [torch.empty_like(live) for live in self._live]

    def take(self) -> None:
        """Keep what is there now."""
        for kept, live in zip(self._kept, self._live, strict=True):
            kept.copy_(live)

    def restore(self) -> None:
        """Put it back."""
        for kept, live in zip(self._kept, self._live, strict=True):
            live.copy_(kept)
