"""Debug check of a committed state: it must equal a fresh run over the same tokens."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from hybridspec.core import PREFILL_CHUNK
from hybridspec.errors import HybridSpecError
from hybridspec.model.layers import wide
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot, TargetState

# Relative Frobenius distance between two orders of the same sums.
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 1e-1, torch.float16: 1e-1}


def enabled() -> bool:
    """Whether `HYBRIDSPEC_CHECK=1` asks for the check after every answer."""
    return os.environ.get("HYBRIDSPEC_CHECK", "0") == "1"


def committed(slot: TargetSlot) -> dict[str, Tensor]:
    """What a slot has committed: GDN states, convolution history, keys and values of P tokens."""
    history = slot.conv.shape[1] - (slot.z.shape[1])
    return {
        "GDN states": slot.gdn,
        "convolution windows": slot.conv[:, :history],
        "keys": slot.keys[:, :, : slot.length],
        "values": slot.values[:, :, : slot.length],
    }


def fresh_run(target: Target, tokens: Tensor) -> TargetSlot:
    """A slot that prefilled tokens [T] and nothing else."""
    state = TargetState(target.config, len(tokens), device=target.device, dtype=target.dtype)
    slot = state.slot()
    for part in tokens.split(PREFILL_CHUNK):
        target.prefill(part, slot)
    return slot


def distances(ours: TargetSlot, theirs: TargetSlot) -> dict[str, float]:
    """Relative Frobenius distance of every committed part; NaN where a part holds NaN."""
    result = {}
    for name, expected in committed(theirs).items():
        difference = (committed(ours)[name] - expected).to(wide(expected.dtype))
        result[name] = float(difference.norm() / expected.norm().clamp_min(1e-30))
    return result


def check_committed(target: Target, slot: TargetSlot, tokens: Tensor) -> None:
    """Compare `slot` with a fresh run over the tokens [P] it should have committed.

    Raises:
        HybridSpecError: lengths differ or a part is off by more than rounding.
    """
    if slot.length != len(tokens):
        raise HybridSpecError(
            f"The state holds {slot.length} tokens where {len(tokens)} were committed. "
            "This is a fault of the engine: please report it with the prompt."
        )
    for name, distance in distances(slot, fresh_run(target, tokens)).items():
        if not distance <= TOLERANCE[target.dtype]:
            raise HybridSpecError(
                f"The committed {name} differ from a fresh run by {distance:.2e} (relative); at "
                f"most {TOLERANCE[target.dtype]:.0e} is rounding. This is a fault of the engine: "
                "please report it with the prompt."
            )
