"""A mixture-of-experts block in plain torch: the law that the kernels of this folder must obey.

T tokens, hidden size K, E experts of width I, k of them a token, and a shared expert of width S.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.linear.naive import norm


class Weights(NamedTuple):
    """router [E + 1, K], whose last row is the shared expert's gate; gate_up [E, 2 I, K] and
    down [E, K, I]; the shared expert's gate_up [2 S, K] and down [K, S]."""

    router: Tensor
    gate_up: Tensor
    down: Tensor
    shared_gate_up: Tensor
    shared_down: Tensor


def route(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """logits [T, E] -> experts [T, k], likeliest first, ties to the lowest id, and their weights.

    Weights are the softmax of all, renormalised over the chosen: the softmax of the chosen.
    """
    order = (-logits).sort(dim=-1, stable=True)
    return order.indices[:, :k], (-order.values[:, :k]).softmax(-1)


def block(x: Tensor, w: Weights, k: int, factor: Tensor, eps: float) -> Tensor:
    """x [T, K], the residual stream, plus what the experts make of its norm (`factor` [K])."""
    h = norm(x, factor, eps)
    logits = h @ w.router.T
    experts, weights = route(logits[:, :-1], k)
    y = _expert(h, w.shared_gate_up, w.shared_down) * torch.sigmoid(logits[:, -1:])
    for t in range(len(x)):
        for e, weight in zip(experts[t].tolist(), weights[t], strict=True):
            y[t] += weight * _expert(h[t], w.gate_up[e], w.down[e])
    return x + y


def _expert(h: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = F.linear(h, gate_up).chunk(2, -1)
    return F.linear(F.silu(gate) * up, down)
