"""Random tensors, their distance from the law, and memory for a norm."""

from __future__ import annotations

import torch

from hybridspec.kernels.linear.norm import Normed


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def distance(ours: torch.Tensor, law: torch.Tensor) -> float:
    return float((ours.double().cpu() - law).norm() / law.norm())


def room(n: int, device) -> Normed:
    """Memory for a stream's norm, NaN where nothing is written."""
    made = Normed.empty(n, torch.float32, device)
    for t in made:
        t.fill_(float("nan"))
    return made
