"""What a sequence's slots hold at a position, taken out and put back. All of it is copied: nothing
that is kept shares memory with a slot."""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.runtime.drafter_state import DrafterSlot
from hybridspec.runtime.round import Sequence
from hybridspec.runtime.state import TargetSlot, W


class Point(NamedTuple):
    """What belongs to one position alone: gdn [Lg, VH, dv, dk], history [Lg, 3, C]."""

    gdn: Tensor
    history: Tensor

    @classmethod
    def of(cls, slot: TargetSlot) -> Point:
        """That of the committed tokens."""
        return cls(slot.gdn.clone(), _history(slot).clone())

    @staticmethod
    def bytes_of(slot: TargetSlot) -> int:
        """Bytes of a copy."""
        return slot.checkpoint.nbytes + _history(slot).nbytes

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.gdn.nbytes + self.history.nbytes


class Rows(NamedTuple):
    """What n positions leave in caches: keys, values [La, KV, n, D]; of a drafter full
    [2, Lf, KV, n, D] and ring [2, Ls, KV, min(n, R), D], the latest positions' rows in order."""

    keys: Tensor
    values: Tensor
    full: Tensor | None = None
    ring: Tensor | None = None

    @classmethod
    def of(cls, sequence: Sequence, start: int, *, drafted: bool) -> Rows:
        """Those of the committed positions from `start` on.

        Args:
            drafted: with the drafter's, which has been given all features.
        """
        slot, stop = sequence.slot, sequence.slot.length
        own = (slot.keys[:, :, start:stop].clone(), slot.values[:, :, start:stop].clone())
        if not drafted:
            return cls(*own)
        drafter = _drafters(sequence)
        ring = drafter.ring[..., _places(drafter, start, stop), :]  # indexing copies
        return cls(*own, drafter.full[..., start:stop, :].clone(), ring)

    @staticmethod
    def bytes_of(sequence: Sequence, start: int, *, drafted: bool) -> int:
        """Bytes of a copy."""
        slot, stop = sequence.slot, sequence.slot.length
        total = 2 * slot.keys[:, :, start:stop].nbytes
        if drafted:
            drafter = _drafters(sequence)
            total += drafter.full[..., start:stop, :].nbytes
            total += drafter.ring[..., : stop - start, :].nbytes
        return total

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(part.nbytes for part in self if part is not None)


def restore(
    sequence: Sequence, point: Point, spans: Many[tuple[int, Rows]], *, drafted: bool
) -> int:
    """Put a kept state into fresh slots.

    Args:
        spans: where each span of positions begins, and its rows; from 0 on without a gap.
        drafted: with the drafter's rows, which all spans have.

    Returns:
        The position reached.
    """
    slot, stop = sequence.slot, 0
    for start, rows in spans:
        stop = start + rows.keys.shape[2]
        slot.keys[:, :, start:stop] = rows.keys
        slot.values[:, :, start:stop] = rows.values
        if drafted:
            _restore_drafter(_drafters(sequence), start, stop, rows)
    slot.checkpoint.copy_(point.gdn)
    _history(slot).copy_(point.history)
    slot.length, slot.pending = stop, 0
    return stop


def _restore_drafter(slot: DrafterSlot, start: int, stop: int, rows: Rows) -> None:
    """In order of positions: a later one takes the ring's row of an earlier one."""
    assert rows.full is not None
    assert rows.ring is not None
    slot.full[..., start:stop, :] = rows.full
    slot.ring[..., _places(slot, start, stop), :] = rows.ring
    slot.length = stop


def _places(slot: DrafterSlot, start: int, stop: int) -> Tensor:
    """The ring's rows of the latest of some positions, as many as it holds."""
    size = slot.ring.shape[-2]
    first = max(start, stop - size)
    return torch.arange(first, stop, device=slot.ring.device) % size


def _history(slot: TargetSlot) -> Tensor:
    """The committed raw columns: views."""
    return slot.conv[:, : slot.conv.shape[1] - W]


def _drafters(sequence: Sequence) -> DrafterSlot:
    assert sequence.drafter_slot is not None
    return sequence.drafter_slot
