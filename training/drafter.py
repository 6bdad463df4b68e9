"""The DFlash drafter as it is trained: many anchors of a sequence in one pass.

Each block's rows see the context strictly before their anchor, through features of the target,
and rows of their own block: a causal drafter only those up to themselves, another one all of them
in its full layers. Sliding layers look back `window` tokens and are always causal here.
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
    """The drafter's shape; a window of 0 means a full layer."""

    hidden: int = 320
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 32
    mlp: int = 280
    windows: tuple[int, ...] = (1024, 1024, 1024, 0)
    taps: tuple[int, ...] = (1, 3, 5, 6)
    block: int = 16
    causal: bool = True
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


def head(x: Tensor, embed: Tensor, labels: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Negative log-probability of labels [N] and the most probable tokens, for rows x [N, h]."""
    logits = linear(x, embed, dtype).float()
    return F.cross_entropy(logits, labels, reduction="none"), logits.detach().argmax(-1)


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
        self.head = head

    def context(self, features: Tensor) -> Tensor:
        """Condition c [B, S, hidden] from tapped residuals [B, S, taps * hidden]."""
        return prms(linear(features, self.fc, self.dtype), self.hn)

    def attend(self, p: Layer, x: Tensor, c: Tensor, pos: Tensor, mask: Tensor) -> Tensor:
        """Attention of block rows x [B, N, R, h] over context c [B, S, h] and their own block.

        mask [B, 1, N * R, S + N * R] is added to the scores.
        """
        d, dtype = self.d, self.dtype
        b, n, r, _ = x.shape
        flat, at = x.flatten(1, 2), pos.flatten(1)
        q = rotate(prms(self.heads(flat, p.q, d.heads), p.qn), at, d.theta).to(dtype)
        place = torch.arange(c.shape[1], device=x.device)[None]

        def keys(src: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
            k = rotate(prms(self.heads(src, p.k, d.kv_heads), p.kn), where, d.theta).to(dtype)
            return k, self.heads(src, p.v, d.kv_heads)

        (kc, vc), (kb, vb) = keys(c, place), keys(flat, at)
        k, v = torch.cat([kc, kb], 1), torch.cat([vc, vb], 1)
        rep = d.heads // d.kv_heads
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return linear(o.transpose(1, 2).flatten(2), p.o, dtype).view(b, n, r, -1)

    def heads(self, x: Tensor, w: Tensor, count: int) -> Tensor:
        """Project x [B, T, h] and split it into heads [B, T, count, D]."""
        return linear(x, w, self.dtype).unflatten(-1, (count, self.d.head_dim))

    def mask(self, anchors: Tensor, length: int, window: int) -> Tensor:
        """What block rows see: the context before their anchor and their own block."""
        device, r = anchors.device, self.d.block
        (b, n), rows = anchors.shape, torch.arange(anchors.shape[1] * r, device=anchors.device)
        pos = (anchors[..., None] + torch.arange(r, device=device)).flatten(1)[..., None]
        place = torch.arange(length, device=device)
        before = (place < anchors.repeat_interleave(r, 1)[..., None]).expand(b, n * r, length)
        block = rows[:, None] // r == rows // r
        if window:
            before = before & (pos - place < window)
            block = block & (rows[:, None] - rows < window)
        if window or self.d.causal:
            block = block & (rows[:, None] >= rows)
        see = torch.cat([before, block.expand(b, -1, -1)], -1)[:, None]
        return torch.where(see, 0.0, -torch.inf).to(self.dtype)

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
        masks = {w: self.mask(anchors, c.shape[1], w) for w in set(d.windows)}
        ids = torch.full_like(pos, MASK_ID)
        ids[..., 0] = first
        x = embed[ids]
        for p, window in zip(self.layers, d.windows, strict=True):
            x = x + self.attend(p, prms(x, p.n1), c, pos, masks[window])
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
