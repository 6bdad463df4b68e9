"""One model on several GPUs of a host: every rank sees its own batches, gradients are averaged.

Start with `torchrun --nproc-per-node N -m training.…`; without torchrun there is one rank and
nothing here does anything.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn


def start(device: str) -> tuple[int, int, str]:
    """Join the other ranks; returns (rank, ranks, this rank's device)."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return 0, 1, device
    rank = int(os.environ["RANK"])
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    return rank, count, device


def average(model: nn.Module) -> None:
    """Average all gradients over the ranks."""
    if not dist.is_initialized():
        return
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for grad, piece in zip(grads, flat.split([g.numel() for g in grads]), strict=True):
        grad.copy_(piece.view_as(grad))


def agree(value: float, device: str) -> float:
    """The first rank's value: ranks that read their own clocks would drift apart."""
    if not dist.is_initialized():
        return value
    shared = torch.tensor([value], device=device, dtype=torch.float64)
    dist.broadcast(shared, 0)
    return float(shared)


def finish() -> None:
    """Leave the group."""
    if dist.is_initialized():
        dist.destroy_process_group()
