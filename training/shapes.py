"""Time C(w), the cost of verifying w tokens, and a drafter call for shapes on random weights.

    OMP_NUM_THREADS=2 python -m training.shapes

Only a shape whose speed can pay is worth training: with E(w) tokens emitted a round the gain over
plain decoding is E(w) * C(1) / (C(w) + drafter). The eager code here does the same
matrix products as the engine, on a context of 384 tokens.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

CONTEXT = 384
LENGTHS = (1, 2, 4, 6, 8, 16)
VOCAB = 8192


@dataclass(frozen=True)
class Shape:
    """A target and drafter shape; the layer pattern is three GDN to one attention layer."""

    hidden: int
    layers: int
    heads: int
    head_dim: int
    expert: int
    shared: int
    draft_mlp: int
    experts: int = 32
    topk: int = 4
    kh: int = 4
    vh: int = 8
    gdn: int = 32


def weight(*size: int) -> Tensor:
    """Return a random matrix."""
    return torch.randn(*size) * 0.02


class Target:
    """One layer of each kind, called in turn; parameters are counted for all layers."""

    def __init__(self, s: Shape) -> None:
        self.s = s
        h, kd, vd = s.hidden, s.kh * s.gdn, s.vh * s.gdn
        self.embed = weight(VOCAB, h)
        self.layers = []
        for i in range(s.layers):
            p = {
                "router": weight(s.experts, h),
                "gu": weight(s.experts, 2 * s.expert, h),
                "dn": weight(s.experts, h, s.expert),
                "sgu": weight(2 * s.shared + 1, h),
                "sdn": weight(h, s.shared),
            }
            if i % 4 == 3:
                p["qkv"] = weight((2 * s.heads + 4) * s.head_dim, h)
                p["o"] = weight(h, s.heads * s.head_dim)
            else:
                p["in"] = weight(2 * kd + 2 * vd + 2 * s.vh, h)
                p["conv"] = weight(2 * kd + vd, 4)
                p["o"] = weight(h, vd)
            self.layers.append(p)
        self.state = torch.zeros(s.vh, s.gdn, s.gdn)
        self.keys = torch.randn(2, 2, CONTEXT + 16, s.head_dim)

    def params(self) -> int:
        """Count parameters, the tied embedding once."""
        return self.embed.numel() + sum(v.numel() for p in self.layers for v in p.values())

    def gdn(self, x: Tensor, p: dict[str, Tensor]) -> Tensor:
        """Block form over w tokens and the commit of their factors."""
        s, w = self.s, x.shape[0]
        kd, vd = s.kh * s.gdn, s.vh * s.gdn
        y, z, ba = F.linear(x, p["in"]).split([2 * kd + vd, vd, 2 * s.vh], -1)
        y = torch.cat([torch.zeros(3, y.shape[1]), y])
        y = F.silu((y.unfold(0, 4, 1) * p["conv"]).sum(-1))
        q, k, v = y.split([kd, kd, vd], -1)
        q = F.normalize(q.view(w, s.kh, s.gdn), dim=-1).transpose(0, 1)
        k = F.normalize(k.view(w, s.kh, s.gdn), dim=-1).transpose(0, 1)
        q, k = (t.repeat_interleave(s.vh // s.kh, 0) for t in (q, k))
        v = v.view(w, s.vh, s.gdn).transpose(0, 1)
        beta, g = torch.sigmoid(ba[:, : s.vh]).T, -F.softplus(ba[:, s.vh :]).T
        acc = g.cumsum(-1)
        decay = (acc[:, :, None] - acc[:, None]).tril().exp().tril()
        lower = (beta[..., None] * decay * (k @ k.mT)).tril(-1)
        rhs = beta[..., None] * (v - acc.exp()[..., None] * (k @ self.state.mT))
        fac = torch.linalg.solve_triangular(lower, rhs, upper=False, unitriangular=True)
        o = acc.exp()[..., None] * (q @ self.state.mT) + (decay * (q @ k.mT)) @ fac
        last = acc[:, -1:, None]
        self.state = last.exp() * self.state + fac.mT @ ((last - acc[..., None]).exp() * k)
        self.state = self.state * 0
        o = F.rms_norm(o.transpose(0, 1), (s.gdn,)) * F.silu(z.view(w, s.vh, s.gdn))
        return F.linear(o.reshape(w, vd), p["o"])

    def attention(self, x: Tensor, p: dict[str, Tensor]) -> Tensor:
        """Gated attention of w tokens over the context."""
        s, w = self.s, x.shape[0]
        n = s.heads * s.head_dim
        q, gate, k, v = F.linear(x, p["qkv"]).split([n, n, 2 * s.head_dim, 2 * s.head_dim], -1)
        q = F.rms_norm(q.view(w, s.heads, s.head_dim), (s.head_dim,))
        k = F.rms_norm(k.view(w, 2, s.head_dim), (s.head_dim,))
        self.keys[0, :, CONTEXT : CONTEXT + w] = k.transpose(0, 1)
        self.keys[1, :, CONTEXT : CONTEXT + w] = v.view(w, 2, s.head_dim).transpose(0, 1)
        keys, values = self.keys[:, None, :, : CONTEXT + w]
        mask = torch.ones(w, CONTEXT + w, dtype=torch.bool).tril(CONTEXT)
        o = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], keys, values, attn_mask=mask, enable_gqa=True
        )
        return F.linear(o[0].transpose(0, 1).reshape(w, n) * torch.sigmoid(gate), p["o"])

    def moe(self, x: Tensor, p: dict[str, Tensor]) -> Tensor:
        """All experts as one pair of products, or the chosen ones when w = 1; the shared expert."""
        s, w = self.s, x.shape[0]
        prob, idx = F.linear(x, p["router"]).softmax(-1).topk(s.topk, -1)
        prob = prob / prob.sum(-1, keepdim=True)
        if w == 1:
            g, u = F.linear(x, p["gu"][idx[0]].flatten(0, 1)).view(s.topk, -1).chunk(2, -1)
            y = (p["dn"][idx[0]] @ (F.silu(g) * u * prob[0][:, None])[..., None]).sum(0).T
        else:
            full = torch.zeros(w, s.experts).scatter_(1, idx, prob)
            g, u = F.linear(x, p["gu"].flatten(0, 1)).view(w, s.experts, -1).chunk(2, -1)
            mid = (F.silu(g) * u * full[..., None]).view(w, -1)
            y = mid @ p["dn"].transpose(1, 2).reshape(-1, s.hidden)
        a, b, gate = F.linear(x, p["sgu"]).split([s.shared, s.shared, 1], -1)
        return y + torch.sigmoid(gate) * F.linear(F.silu(a) * b, p["sdn"])

    def __call__(self, ids: Tensor) -> Tensor:
        """Logits of w tokens."""
        x = self.embed[ids]
        norm = (self.s.hidden,)
        for i, p in enumerate(self.layers):
            mixer = self.attention if i % 4 == 3 else self.gdn
            x = x + mixer(F.rms_norm(x, norm), p)
            x = x + self.moe(F.rms_norm(x, norm), p)
        return F.linear(F.rms_norm(x, norm), self.embed)


class Drafter:
    """Three layers of 8 heads of 32 over 16 rows, logits of the first M mask rows."""

    def __init__(self, s: Shape, embed: Tensor, taps: int = 4, layers: int = 3) -> None:
        h = s.hidden
        self.embed, self.fc = embed, weight(h, taps * h)
        self.layers = [
            {
                "qkv": weight(256 + 128, h),
                "o": weight(h, 256),
                "gu": weight(2 * s.draft_mlp, h),
                "dn": weight(h, s.draft_mlp),
            }
            for _ in range(layers)
        ]
        self.keys = torch.randn(2, 1, 2, CONTEXT + 16, 32)

    def params(self) -> int:
        """Count parameters."""
        return self.fc.numel() + sum(v.numel() for p in self.layers for v in p.values())

    def __call__(self, ids: Tensor, m: int) -> Tensor:
        """Drafts of rows 1..m."""
        x = self.embed[ids]
        h = (x.shape[1],)
        for p in self.layers:
            q, k, v = F.linear(F.rms_norm(x, h), p["qkv"]).split([256, 64, 64], -1)
            q = F.rms_norm(q.view(16, 8, 32), (32,)).transpose(0, 1)[None]
            self.keys[0, 0, :, CONTEXT:] = k.view(16, 2, 32).transpose(0, 1)
            self.keys[1, 0, :, CONTEXT:] = v.view(16, 2, 32).transpose(0, 1)
            mask = torch.ones(16, CONTEXT + 16, dtype=torch.bool).tril(CONTEXT)
            o = F.scaled_dot_product_attention(
                q, self.keys[0], self.keys[1], attn_mask=mask, enable_gqa=True
            )
            x = x + F.linear(o[0].transpose(0, 1).reshape(16, 256), p["o"])
            a, b = F.linear(F.rms_norm(x, h), p["gu"]).chunk(2, -1)
            x = x + F.linear(F.silu(a) * b, p["dn"])
        feats = torch.ones(m + 1, self.fc.shape[1])
        for p in self.layers:
            F.linear(F.linear(feats, self.fc), p["qkv"][256:])
        return F.linear(F.rms_norm(x[1 : m + 1], h), self.embed).argmax(-1)


def median_ms(run: object, *args: object, repeat: int = 30) -> float:
    """Return the median milliseconds of a call."""
    times = []
    for _ in range(repeat + 3):
        start = time.perf_counter()
        run(*args)  # type: ignore[operator]
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times[3:])[repeat // 2]


SHAPES = {
    "256x8 shared 384": Shape(256, 8, 8, 64, 16, 384, 640),
    "320x8 shared 192": Shape(320, 8, 4, 64, 16, 192, 448),
    "320x8 I12 shared 256": Shape(320, 8, 8, 64, 12, 256, 448),
    "384x8 I8 shared 256": Shape(384, 8, 4, 64, 8, 256, 384),
}


def main() -> None:
    """Print one row a shape."""
    torch.manual_seed(0)
    torch.set_num_threads(2)
    print(f"| shape | target M | drafter M | {' | '.join(f'C({w})' for w in LENGTHS)} | draft(7) |")
    with torch.inference_mode():
        for name, shape in SHAPES.items():
            target = Target(shape)
            draft = Drafter(shape, target.embed)
            ids = torch.randint(0, VOCAB, (16,))
            costs = [median_ms(target, ids[:w]) for w in LENGTHS]
            cells = " | ".join(f"{c:.2f}" for c in costs)
            sizes = f"{target.params() / 1e6:.2f} | {draft.params() / 1e6:.2f}"
            print(f"| {name} | {sizes} | {cells} | {median_ms(draft, ids, 7):.2f} |")


if __name__ == "__main__":
    main()
