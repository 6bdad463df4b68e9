"""Muon for matrices and AdamW for the rest, on stacked parameters."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def orthogonalise(g: Tensor, dtype: torch.dtype) -> Tensor:
    """Five quintic Newton-Schulz steps toward semi-orthogonal matrices of [..., m, n]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = g.to(dtype)
    flip = x.shape[-2] > x.shape[-1]
    x = x.mT if flip else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return x.mT if flip else x


class Muon:
    """Momentum 0.95 with Nesterov, orthogonalised, scaled to the shape; decoupled weight decay."""

    def __init__(self, params: list[nn.Parameter], decay: float = 0.02) -> None:
        self.params, self.decay = params, decay
        self.momentum = [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self, lr: float, beta: float = 0.95) -> None:
        """One update."""
        for p, m in zip(self.params, self.momentum, strict=True):
            if p.grad is None:
                continue
            m.lerp_(p.grad, 1 - beta)
            dtype = torch.bfloat16 if p.is_cuda else torch.float32
            update = orthogonalise(p.grad.lerp(m, beta), dtype)
            scale = max(1.0, p.shape[-2] / p.shape[-1]) ** 0.5
            p.mul_(1 - lr * self.decay).add_(update.to(p.dtype), alpha=-lr * scale)
            p.grad = None


class Optimiser:
    """Muon on the matrices, AdamW on embedding, router and vectors; one learning-rate factor."""

    def __init__(self, model: nn.Module, muon_lr: float, adam_lr: float, adam: set[str]) -> None:
        named = dict(model.named_parameters())
        matrices = [p for n, p in named.items() if p.ndim >= 2 and n.split(".")[-1] not in adam]
        chosen = {id(p) for p in matrices}
        rest = [p for p in named.values() if id(p) not in chosen]
        self.muon, self.muon_lr, self.adam_lr = Muon(matrices), muon_lr, adam_lr
        fused = rest[0].is_cuda
        self.adam = torch.optim.AdamW(
            rest, lr=adam_lr, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=fused
        )

    def step(self, factor: float) -> None:
        """Update all parameters with the base rates times factor."""
        self.muon.step(self.muon_lr * factor)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * factor
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)


def schedule(progress: float, warm: float = 0.02, flat: float = 0.35) -> float:
    """Warm up, hold, then fall linearly to 2% at progress 1."""
    if progress < warm:
        return (progress + 1e-3) / (warm + 1e-3)
    if progress < flat:
        return 1.0
    return max(0.02, 1.0 - 0.98 * (progress - flat) / (1 - flat))
