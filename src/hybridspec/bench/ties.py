"""How near plain decoding was to saying another token: how far logits had to move for it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hybridspec.core import SamplingParams
from hybridspec.model.gdn import Verifier
from hybridspec.runtime.philox import uniform
from hybridspec.runtime.sampling import weights

# Where tokens are the same bit for bit (docs/architecture.md), a difference is never a near tie.
BIT_FOR_BIT: tuple[Verifier, ...] = ("exact", "per-token")
# Elsewhere rounding may turn a router's near tie; one other expert then moves float32 logits by
# about 5e-3 (docs/architecture.md). Twice that; for the half types a choice, not a measurement.
ROUNDING = {torch.float64: 0.01, torch.float32: 0.01}
HALF_ROUNDING = 0.25


def bound(verifier: Verifier, device: torch.device, dtype: torch.dtype) -> float:
    """By how much a verifier's rounding may move every logit, in the worst case that we allow."""
    if device.type == "cpu" and verifier in BIT_FOR_BIT:
        return 0.0
    return ROUNDING.get(dtype, HALF_ROUNDING)


def turn(row: Tensor, found: int, params: SamplingParams, seed: int, position: int) -> float:
    """The least e such that plain decoding says `found` if every logit may move by e.

    Greedy: half the regret, for `found` rises by e and the most likely token falls by e. Sampled
    at T without filters: the draw u lies outside the share [a, b) of `found` in the running sum of
    probabilities, and with all logits before an edge c moved one way and all after it the other
    way, log c / (1 - c) moves by 2 e / T.

    Args:
        row: [V] logits of plain decoding.
        found: the other token.
        params: greedy, or a temperature without filters.
        seed: of the answer.
        position: index of the token in the sequence, the prompt included.
    """
    if params.greedy:
        return float(row.double().max() - row.double()[found]) / 2
    running = weights(row[None], params)[0].double().cumsum(0)
    total = float(running[-1])
    after = float(running[found]) / total
    before = float(running[found - 1]) / total if found else 0.0
    u = float(uniform(seed, torch.tensor([position], device=row.device)))
    if before <= u < after:
        return 0.0
    return params.temperature / 2 * abs(_log_odds(before if u < before else after) - _log_odds(u))


def _log_odds(share: float) -> float:
    if share <= 0.0 or share >= 1.0:
        return math.copysign(math.inf, share - 0.5)
    return math.log(share / (1 - share))
