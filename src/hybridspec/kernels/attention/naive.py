"""Attention of a few rows over a cache in plain torch: the law that the kernels must obey."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.attention.config import Sight


def split(
    qkv: Tensor, heads: int, kv: int, size: int, *, gated: bool
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """Rows [w, R] of the joint projection as q [w, H, D], gate (or None), k and v [w, KV, D].

    With a gate, every head's stands behind its q.
    """
    wide = heads * size * (2 if gated else 1)
    q, k, v = qkv.split((wide, kv * size, kv * size), -1)
    q = q.unflatten(-1, (heads, -1))
    gate = q[..., size:] if gated else None
    return q[..., :size], gate, k.unflatten(-1, (kv, size)), v.unflatten(-1, (kv, size))


def turned(x: Tensor, factor: Tensor, eps: float, cos: Tensor, sin: Tensor) -> Tensor:
    """x [w, heads, D] after its root-mean-square norm, the leading R dimensions rotated.

    cos, sin [w, 1, R] belong to the rows' positions; sin is negative in its first half. Rounded to
    the dtype of x after the norm and after the rotation.
    """
    y = (x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * factor).to(x.dtype)
    width = cos.shape[-1]
    y1 = y[..., :width]
    rotated = y1 * cos + y1.roll(width // 2, -1) * sin
    return torch.cat((rotated.to(x.dtype), y[..., width:]), -1)


def places(position: int, length: int, rows: int, sight: Sight) -> Tensor:
    """Rows of the cache [length] that the positions from `position` on are written to."""
    at = torch.arange(position, position + length)
    return at % rows if sight.ring else at


def visible(position: int, length: int, rows: int, sight: Sight) -> Tensor:
    """Which rows of the cache each of the queries from `position` on sees: [length, rows] bool."""
    end, row = position + length, torch.arange(rows)
    held = row < end
    at = row + (end - 1 - row).clamp(min=0) // rows * rows if sight.ring else row
    age = torch.arange(position, end)[:, None] - at
    seen = held.expand_as(age)
    if sight.causal:
        seen = seen & (age >= 0)
    if sight.window:
        seen = seen & (age < sight.window)
    return seen


def attend(q: Tensor, keys: Tensor, values: Tensor, seen: Tensor) -> Tensor:
    """q [w, H, D] over keys and values [KV, rows, D]; seen [w, rows] -> [w, H, D].

    What no query sees may hold anything.
    """
    shared = q.shape[1] // keys.shape[0]
    some = seen.any(0)
    k, v = (t[:, some].repeat_interleave(shared, 0) for t in (keys, values))  # [H, n, D]
    scores = torch.einsum("whd,hnd->hwn", q, k) * q.shape[-1] ** -0.5
    p = scores.masked_fill(~seen[:, some], -torch.inf).softmax(-1)
    return torch.einsum("hwn,hnd->whd", p, v)
