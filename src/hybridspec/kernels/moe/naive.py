"""A mixture-of-experts block in plain torch: the law that the kernels of this folder must obey.

T tokens, hidden size K, E experts of width I, k of them a token, and a shared expert of width S.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Weights(NamedTuple):
    """factor [K] of the norm; router [E, K]; gate_up [E, 2 I, K] and down [E, K, I]; the shared
    expert's gate_up [2 S, K] and down [K, S], and its gate [K]."""

    factor: Tensor
    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared_gate_up: Tensor
    shared_down: Tensor
    shared_gate: Tensor


def route(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """logits [T, E] -> experts [T, k], likeliest first, ties to the lowest id, and their weights.

    Weights are the softmax of all, renormalised over the chosen.
    """
    probability = logits.softmax(-1)
    order = (-probability).sort(dim=-1, stable=True)
    experts = order.indices[:, :k]
    weights = probability.gather(-1, experts)
    return experts, weights / weights.sum(-1, keepdim=True)


def block(x: Tensor, w: Weights, k: int, eps: float) -> Tensor:
    """x [T, K], the residual stream, plus what the experts make of its norm."""
    h = x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * w.factor
    experts, weights = route(h @ w.router.T, k)
    y = _expert(h, w.shared_gate_up, w.shared_down) * torch.sigmoid(h @ w.shared_gate)[:, None]
    for t in range(len(x)):
        for e, weight in zip(experts[t].tolist(), weights[t], strict=True):
            y[t] += weight * _expert(h[t], w.gate_up[e], w.down[e])
    return x + y


def _expert(h: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = F.linear(h, gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, down)
