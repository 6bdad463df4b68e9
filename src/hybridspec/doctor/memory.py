"""What a pair takes of a device's memory, reckoned before a weight is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from hybridspec.doctor.finding import Finding, had
from hybridspec.doctor.setting import Setting
from hybridspec.memory import free_bytes, size
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.placement import choose_context
from hybridspec.runtime.room import nbytes


@dataclass(frozen=True, slots=True)
class Ledger:
    """Bytes of the weights and of one sequence's memory for `context` tokens."""

    target: int
    drafter: int
    state: int
    context: int

    @classmethod
    def of(cls, target: Target, drafter: Drafter | None, device: torch.device) -> Ledger:
        """For a device; the models need no storage."""
        context = choose_context(None, target.config.max_position_embeddings)
        state = nbytes(target, drafter, context, device.type == "cuda")
        return cls(_weights(target), 0 if drafter is None else _weights(drafter), state, context)

    @property
    def total(self) -> int:
        """All of it; what single passes take comes on top."""
        return self.target + self.drafter + self.state


def _weights(model: Target | Drafter) -> int:
    return sum(slot.nbytes for slot in model.slots().values())


def memory(setting: Setting) -> Iterator[Finding]:
    """Weights, state and what is free."""
    ledger = Ledger.of(*had(setting.models), setting.device)
    free = free_bytes(setting.device)
    value = (
        f"target {size(ledger.target)}, drafter {size(ledger.drafter)}, state {size(ledger.state)} "
        f"for {ledger.context} tokens, together {size(ledger.total)}"
    )
    if free is not None and ledger.total > free:
        advice = (
            "Free memory there, or take a narrower --dtype, another --device or a smaller model; "
            "--max-context of the other commands makes the state smaller."
        )
        value += f", and {size(free)} free on {setting.device}"
        yield Finding("memory", "FAIL", value, advice)
        return
    setting.fits = True
    if free is None:
        advice = "See yourself that it fits; this system does not say what is free."
        yield Finding("memory", "note", value, advice)
    else:
        yield Finding("memory", "OK", f"{value}; {size(free)} free on {setting.device}")
