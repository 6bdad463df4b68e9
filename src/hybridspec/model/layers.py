"""Small shared pieces: root-mean-square norm, rotary embedding, dtypes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of states, norms and routing: float32, or float64 for a float64 model."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def rms_norm(x: Tensor, scale: Tensor, eps: float) -> Tensor:
    """x / rms(x) * scale over the last dimension, computed in scale's dtype, returned in x's."""
    return F.rms_norm(x.to(scale.dtype), x.shape[-1:], None, eps).mul_(scale).to(x.dtype)


class Rope:
    """Rotary tables for positions 0..capacity-1; pairs are (i, i + rotary_dim / 2).

    Text has one position axis, so the interleaved three-axis form of Qwen3.5 is exactly this one.
    """

    def __init__(
        self, theta: float, rotary_dim: int, capacity: int, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.rotary_dim = rotary_dim
        exponent = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device=device) / rotary_dim
        angles = torch.arange(capacity, device=device)[:, None].float() / theta**exponent
        self.cos = angles.cos().to(wide(dtype))
        self.sin = angles.sin().to(wide(dtype))

    def rotate(self, x: Tensor, start: int) -> Tensor:
        """Rotate the leading dimensions of x [..., T, heads, D] at positions start..start+T-1."""
        rows = slice(start, start + x.shape[-3])
        cos, sin = self.cos[rows, None], self.sin[rows, None]
        half = self.rotary_dim // 2
        a, b, rest = x.split((half, half, x.shape[-1] - 2 * half), -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1).to(x.dtype)
