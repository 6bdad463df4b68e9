"""Products of a few rows in plain torch: the law that `product.py` must obey."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def product(x: Tensor, w: Tensor, residual: Tensor | None = None) -> Tensor:
    """x [T, K] by w [N, K] -> [T, N], on top of `residual` [T, N] where there is one."""
    y = F.linear(x, w)
    return y if residual is None else residual + y


def norm(x: Tensor, factor: Tensor, eps: float) -> Tensor:
    """x [..., K], root-mean-square normalised, times `factor` [K]."""
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * factor


def norm_product(x: Tensor, factor: Tensor, eps: float, w: Tensor) -> Tensor:
    """The product of the norm of x [T, K]."""
    return F.linear(norm(x, factor, eps), w)


def up_product(x: Tensor, factor: Tensor, eps: float, w: Tensor) -> Tensor:
    """silu(gate) * up of the norm of x [T, K]; w [2 I, K] is gate above up."""
    gate, up = norm_product(x, factor, eps, w).chunk(2, -1)
    return F.silu(gate) * up


def gated_product(
    o: Tensor, gate: Tensor, factor: Tensor, eps: float, w: Tensor, residual: Tensor
) -> Tensor:
    """residual [T, N] and the product of GDN outputs o [T, H, d], each head normalised, times
    `factor` [d] and silu(gate [T, H, d])."""
    return residual + F.linear((norm(o, factor, eps) * F.silu(gate)).flatten(1), w)
