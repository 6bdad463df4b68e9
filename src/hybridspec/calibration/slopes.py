"""The small costs of a runtime: a draft call, one more token in Stage 0, one more expert."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from hybridspec.calibration.capture import Capture
from hybridspec.calibration.measure import expert_slope, interleaved, stage0_slope
from hybridspec.engine import Engine

CONTEXT = 256  # tokens before the timed calls
TURNS = 40


@dataclass(frozen=True)
class Slopes:
    """s and eta, ms, with the fits they come from, and draft_ms: a call for all D scored drafts."""

    s_ms: float
    eta_ms: float
    draft_ms: float
    data: dict[str, Any]


@torch.inference_mode()
def measure_slopes(engine: Engine) -> Slopes:
    """Time what no trace shows, on a sequence of made-up tokens."""
    target, drafter = engine.target, engine.drafter
    assert drafter is not None
    capture = Capture(target, drafter, 2 * CONTEXT)
    slot = capture.state.slot(tap_layers=drafter.config.target_layer_ids)
    drafter_slot = capture.drafter_state.slot()
    ids = torch.arange(CONTEXT, device=target.device) % target.config.vocab_size
    out = target.prefill(ids, slot)
    assert out.features is not None
    drafter.extend(out.features, drafter_slot)
    drafts = drafter.config.block_size - 1
    call = partial(drafter.propose, target, 1, drafter_slot, drafts, scored=True)
    draft_ms = interleaved({0: call}, TURNS, target.device)[0]
    stage0, experts = stage0_slope(target, slot), expert_slope(target)
    data = {"stage0": asdict(stage0), "experts": asdict(experts)}
    # A slope below zero is noise around none: more work never takes less time.
    return Slopes(max(stage0.slope, 0.0), max(experts.slope, 0.0), draft_ms, data)
