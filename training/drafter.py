"""The DFlash drafter as it is trained: many anchors of a sequence in one pass.

Each block's rows see the context strictly before their anchor, through features of the target,
and the rows of their own block; sliding layers are causal inside the block and look back `window`
tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from training.target import linear
from training.tokenizer import MASK_ID


@dataclass(frozen=True)
class DraftShape:
    """The drafter's shape; a window of 0 means a full, bidirectional layer."""

    hidden: int = 320
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 32
    mlp: int = 280
    windows: tuple[int, ...] = (1024, 1024, 1024, 0)
    taps: tuple[int, ...] = (1, 3, 5, 6)
    block: int = 16
    theta: float = 1e7


def prms(x: Tensor, w: Tensor) -> Tensor:
    """Plain RMS norm in fp32."""
    x = x.float()
    return w * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def rotate(x: Tensor, pos: Tensor, theta: float) -> Tensor:
    """RoPE over all dimensions of x [..., T, heads, D] at pos [..., T]."""
    half = x.shape[-1] // 2
    inv = theta ** (-torch.arange(half, device=x.device).float() / half)
    angle = pos[..., None, None].float() * inv
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    """One drafter layer, its parameters named as in the checkpoint."""

    def __init__(self, d: DraftShape) -> None:
        super().__init__()
        h, q, kv = d.hidden, d.heads * d.head_dim, d.kv_heads * d.head_dim

        def matrix(out: int, inp: int, scale: float = 0.7) -> nn.Parameter:
            return nn.Parameter(torch.randn(out, inp) * scale * inp**-0.5)

        self.q, self.k, self.v = matrix(q, h), matrix(kv, h), matrix(kv, h)
        self.o = matrix(h, q, 0.0)
        self.gate, self.up, self.down = matrix(d.mlp, h), matrix(d.mlp, h), matrix(h, d.mlp, 0.0)
        self.n1, self.n2 = nn.Parameter(torch.ones(h)), nn.Parameter(torch.ones(h))
        self.qn, self.kn = (nn.Parameter(torch.ones(d.head_dim)) for _ in range(2))


class Drafter(nn.Module):
    """Drafts of whole batches of anchors."""

    def __init__(self, d: DraftShape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.d, self.dtype = d, dtype
        self.fc = nn.Parameter(torch.randn(d.hidden, len(d.taps) * d.hidden) * 0.02)
        self.hn, self.norm = nn.Parameter(torch.ones(d.hidden)), nn.Parameter(torch.ones(d.hidden))
        self.layers = nn.ModuleList(Layer(d) for _ in d.windows)

    def context(self, features: Tensor) -> Tensor:
        """Condition c [B, S, hidden] from tapped residuals [B, S, taps * hidden]."""
        return prms(linear(features, self.fc, self.dtype), self.hn)

    def attend(
        self, p: Layer, window: int, x: Tensor, c: Tensor, pos: Tensor, see: Tensor
    ) -> Tensor:
        """Attention of block rows x [B, N, R, h] over context c [B, S, h] and their own block."""
        d, dtype = self.d, self.dtype
        b, n, r, _ = x.shape
        q = linear(x, p.q, dtype).view(b, n, r, d.heads, d.head_dim)
        q = rotate(prms(q, p.qn), pos, d.theta) * d.head_dim**-0.5
        both = torch.arange(c.shape[1], device=x.device)

        def keys(src: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
            k = linear(src, p.k, dtype).unflatten(-1, (d.kv_heads, d.head_dim))
            v = linear(src, p.v, dtype).unflatten(-1, (d.kv_heads, d.head_dim))
            return rotate(prms(k, p.kn), at, d.theta).to(dtype), v

        kc, vc = keys(c, both[None])
        kb, vb = keys(x, pos)
        q = q.to(dtype).unflatten(3, (d.kv_heads, -1))  # [B, N, R, KV, G, D]
        sc = torch.einsum("bnrkgd,bskd->bkgnrs", q, kc)
        sb = torch.einsum("bnrkgd,bnskd->bkgnrs", q, kb)
        visible = see[:, :, None, :].expand(b, n, r, -1)
        if window:
            visible = visible & (pos[..., None] - both < window)
            back = torch.arange(r, device=x.device)[:, None] - torch.arange(r, device=x.device)
            sb = sb.masked_fill((back < 0) | (back >= window), -30000.0)
        sc = sc.masked_fill(~visible[:, None, None], -30000.0)
        weight = torch.cat([sc, sb], -1).float().softmax(-1).to(dtype)
        wc, wb = weight.split([c.shape[1], r], -1)
        o = torch.einsum("bkgnrs,bskd->bnrkgd", wc, vc)
        o = o + torch.einsum("bkgnrs,bnskd->bnrkgd", wb, vb)
        return linear(o.flatten(3), p.o, dtype)

    def rows(self, features: Tensor, anchors: Tensor, first: Tensor, embed: Tensor) -> Tensor:
        """Final normed rows 1..15 of each block, [B, N, 15, hidden].

        Args:
            features: [B, S, taps * hidden] tapped residuals.
            anchors: [B, N] positions of the anchors.
            first: [B, N] anchor tokens.
            embed: [vocab, hidden] the target's embedding.
        """
        d = self.d
        c = self.context(features)
        pos = anchors[..., None] + torch.arange(d.block, device=anchors.device)
        see = torch.arange(c.shape[1], device=anchors.device) < anchors[..., None]
        ids = torch.full_like(pos, MASK_ID)
        ids[..., 0] = first
        x = embed[ids]
        for p, window in zip(self.layers, d.windows, strict=True):
            x = x + self.attend(p, window, prms(x, p.n1), c, pos, see)
            h = prms(x, p.n2)
            mid = F.silu(linear(h, p.gate, self.dtype)) * linear(h, p.up, self.dtype)
            x = x + linear(mid, p.down, self.dtype)
        return prms(x[:, :, 1:], self.norm)


NAMES = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "qn": "self_attn.q_norm",
    "kn": "self_attn.k_norm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "n1": "input_layernorm",
    "n2": "post_attention_layernorm",
}


def to_names(model: Drafter) -> dict[str, Tensor]:
    """The drafter's tensors under their checkpoint names."""
    out = {"fc.weight": model.fc, "hidden_norm.weight": model.hn, "norm.weight": model.norm}
    for i, layer in enumerate(model.layers):
        for own, name in NAMES.items():
            out[f"layers.{i}.{name}.weight"] = getattr(layer, own)
    return out
