"""What an engine has committed, beside a fresh run over the tokens that it should have."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.engine import Engine
from hybridspec.model.config import DrafterConfig
from hybridspec.runtime.check import committed
from hybridspec.runtime.state import DrafterSlot, DrafterState, TargetSlot, TargetState
from hybridspec.stream import Stream

# The runs add the same float64 numbers in another order: about 1e-15 a step, and four layers of
# norms and a recurrence over some hundred tokens amplify it. A wrong token moves a part by 0.1.
EXACT = 1e-10


def drafter_context(slot: DrafterSlot, config: DrafterConfig) -> dict[str, Tensor]:
    """Keys and values of the context that a next draft call can see, oldest first."""
    ring = slot.ring.shape[-2]
    window = ring - config.block_size
    seen = torch.arange(max(0, slot.length - window), slot.length)
    return {
        "drafter's full layers": slot.full[..., : slot.length, :],
        "drafter's rings": slot.ring[..., seen % ring, :],
    }


def fresh(engine: Engine, tokens: list[int]) -> tuple[TargetSlot, DrafterSlot]:
    """Slots that prefilled exactly these tokens, in one pass."""
    config, dtype = engine.drafter.config, engine.target.dtype
    state = TargetState(engine.target.config, engine.max_context, dtype=dtype)
    slot = state.slot(0, config.target_layer_ids)
    features = engine.target.prefill(torch.tensor(tokens), slot).features
    context = DrafterState(config, engine.max_context, dtype=dtype).slot()
    engine.drafter.extend(features, context)
    return slot, context


def assert_committed(
    engine: Engine, stream: Stream, tokens: list[int], tolerance: float = EXACT
) -> None:
    """The stream's slots hold what a fresh run over `tokens` holds, and not a token more."""
    sequence, (slot, context) = stream._sequence, fresh(engine, tokens)
    assert sequence.slot.length == len(tokens)
    ours, theirs = committed(sequence.slot), committed(slot)
    if stream._rounds.drafter is not None:  # a system that drafts
        with torch.inference_mode():
            stream._rounds.catch_up(sequence)
        assert sequence.drafter_slot.length == len(tokens)
        ours |= drafter_context(sequence.drafter_slot, engine.drafter.config)
        theirs |= drafter_context(context, engine.drafter.config)
    for name, expected in theirs.items():
        distance = float((ours[name] - expected).norm() / expected.norm().clamp_min(1e-30))
        assert distance <= tolerance, f"{name}: {distance:.1e}"
