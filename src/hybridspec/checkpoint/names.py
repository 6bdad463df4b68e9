"""From the names in a checkpoint to the names of the model's slots.

Slots are named as the published checkpoints name their tensors, without a prefix. Text-only
re-saves drop `language_model.`, and some exporters store one tensor an expert; both are read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Half = Literal["gate", "up"]
PREFIXES = ("model.language_model.", "model.")
# The vision tower and the multi-token-prediction head: parts of a target we do not run.
SKIPPED = ("mtp.", "visual.", "model.visual.")
_EXPERT = re.compile(r"(.*\.mlp\.experts)\.(0|[1-9]\d*)\.(gate|up|down)_proj\.weight")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor goes: a whole slot, one expert of it, or one half of an expert.

    Attributes:
        slot: name of the slot.
        expert: index into the slot's first dimension; None for the whole slot.
        half: for `gate_up_proj` of one expert, which rows: gate comes first.
    """

    slot: str
    expert: int | None = None
    half: Half | None = None

    def view(self, slots: Mapping[str, Tensor]) -> Tensor:
        """The part of the slot that this place names, sharing its storage.

        Raises:
            KeyError, IndexError: no such slot, no such expert.
        """
        slot = slots[self.slot]
        if self.expert is None:
            return slot
        rows = slot[self.expert]
        if self.half is None:
            return rows
        middle = rows.shape[0] // 2
        return rows[:middle] if self.half == "gate" else rows[middle:]

    def __str__(self) -> str:
        if self.expert is None:
            return self.slot
        stem, _, _ = self.slot.rpartition(".")
        return f"{stem}.{self.expert}.{self.half or 'down'}_proj.weight"


Placer = Callable[[str], Place | None]


def place_target(name: str) -> Place | None:
    """The place of a target's tensor, None for the parts that are skipped by name."""
    if name.startswith(SKIPPED):
        return None
    name = _strip(name)
    expert = _EXPERT.fullmatch(name)
    if expert is None:
        return Place(name)
    stem, index, projection = expert.groups()
    if projection == "down":
        return Place(f"{stem}.down_proj", int(index))
    return Place(f"{stem}.gate_up_proj", int(index), "gate" if projection == "gate" else "up")


def place_drafter(name: str) -> Place | None:
    """The place of a drafter's tensor: nothing of a drafter is skipped."""
    return Place(name.removeprefix("model."))


def _strip(name: str) -> str:
    for prefix in PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
