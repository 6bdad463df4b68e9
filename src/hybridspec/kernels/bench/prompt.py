"""A prompt through the whole model, as the engine runs it: chunk by chunk, calls one by one."""

from __future__ import annotations

import torch

from hybridspec.core import prefill_chunk
from hybridspec.kernels.bench.forward import SKEW, fill
from hybridspec.kernels.bench.prefill import LONG, SMALL, clocked
from hybridspec.kernels.bench.setting import Setting
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetState


def time_prompt(s: Setting) -> None:
    """LONG tokens on random weights, from an empty sequence to the last token's logits."""
    config, tokens = s.shape.target(), LONG if s.device.type == "cuda" else SMALL
    target = Target(config, s.device, s.dtype)
    fill(s, target, SKEW)
    target.set_context(tokens)
    slot = TargetState(config, tokens, device=s.device, dtype=s.dtype).slot()
    ids = torch.randint(config.vocab_size, (tokens,), generator=s.generator, device=s.device)
    parts = ids.split(prefill_chunk(s.device, s.dtype))

    def whole() -> None:
        slot.reset()
        for part in parts:
            target.prefill(part, slot)

    clocked(s, "whole", whole)
