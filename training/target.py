"""The target as it is trained: stacked parameters, whole batches, chunked GDN, dense experts.

Token-wise work runs on flattened [N, hidden] arrays of one fixed N: each piece compiles once for
all row lengths; only the scan over chunks and the attention see the rows. Equations: the project's
reference for Qwen3.5-MoE; chunk form: paper eq. 3 with chunks of 32.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHUNK = 32
HALF = CHUNK // 2


@dataclass(frozen=True)
class Shape:
    """The pair's target; `training/shapes.py` says why."""

    vocab: int = 8192
    hidden: int = 320
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    kh: int = 4
    vh: int = 8
    gdn: int = 32
    experts: int = 32
    topk: int = 4
    expert: int = 16
    shared: int = 192
    theta: float = 1e7

    @property
    def linear(self) -> list[int]:
        """GDN layers."""
        return [i for i in range(self.layers) if i % 4 != 3]

    @property
    def full(self) -> list[int]:
        """Attention layers."""
        return [i for i in range(self.layers) if i % 4 == 3]

    def as_dict(self) -> dict[str, float]:
        """All fields."""
        return asdict(self)


def zrms(x: Tensor, w: Tensor) -> Tensor:
    """Zero-centred RMS norm in fp32."""
    x = x.float()
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + w)


def linear(x: Tensor, w: Tensor, dtype: torch.dtype) -> Tensor:
    """x W^T in the compute dtype."""
    return F.linear(x.to(dtype), w.to(dtype))


def rope(x: Tensor, pos: Tensor, rotary: int, theta: float) -> Tensor:
    """Rotate the first `rotary` dimensions of x [N, heads, D] by pos [N]."""
    inv = theta ** (-torch.arange(0, rotary, 2, device=x.device).float() / rotary)
    angle = pos[:, None].float() * inv
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b, rest = x.split([rotary // 2, rotary // 2, x.shape[-1] - rotary], -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


class UnitLowerInverse(torch.autograd.Function):
    """(I + A)^-1 for strictly lower A [..., 32, 32]: doubling on 16 x 16 blocks, then one merge.

    Doubling over the whole block would meet powers of A that grow as binomials when keys repeat.
    """

    @staticmethod
    def forward(ctx, a):  # type: ignore[no-untyped-def]  # noqa: D102
        blocks = torch.stack([a[..., :HALF, :HALF], a[..., HALF:, HALF:]])
        power = -blocks
        inv = power + torch.eye(HALF, device=a.device, dtype=a.dtype)
        for _ in range(3):
            power = power @ power
            inv = inv + inv @ power
        corner = -inv[1] @ a[..., HALF:, :HALF] @ inv[0]
        top = torch.cat([inv[0], torch.zeros_like(corner)], -1)
        out = torch.cat([top, torch.cat([corner, inv[1]], -1)], -2)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]  # noqa: D102
        (out,) = ctx.saved_tensors
        return -(out.mT @ grad @ out.mT).tril(-1)


def conv_silu(x: Tensor, w: Tensor, pos: Tensor) -> Tensor:
    """Depthwise causal convolution of width 4 within rows. x [N, C], w [C, 4], pos [N]."""
    x = x.float()
    y = x * w[:, 3]
    for back in (1, 2, 3):
        shifted = F.pad(x, (0, 0, back, 0))[: x.shape[0]]
        y = y + torch.where(pos[:, None] >= back, shifted, 0.0) * w[:, 3 - back]
    return F.silu(y)


def l2(x: Tensor) -> Tensor:
    """Unit length along the last dimension."""
    return x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6)


def gdn_pre(x, norm, w_in, conv, a_log, dt, pos, s: Shape, dtype):  # type: ignore[no-untyped-def]
    """Project, convolve and fold each chunk: S' = S M + N, O = O1 + R S^T. x [N, hidden]."""
    n, kd, vd, d = x.shape[0], s.kh * s.gdn, s.vh * s.gdn, s.gdn
    y, z, ba = linear(zrms(x, norm), w_in, dtype).split([2 * kd + vd, vd, 2 * s.vh], -1)
    q, k, v = conv_silu(y, conv, pos).split([kd, kd, vd], -1)

    def chunks(t: Tensor, heads: int) -> Tensor:
        return t.reshape(n // CHUNK, CHUNK, heads, d).transpose(1, 2)

    q, k, v = chunks(q, s.kh), chunks(k, s.kh), chunks(v, s.vh)
    q, k = l2(q) * d**-0.5, l2(k)
    b, a = ba.float().split(s.vh, -1)
    beta = torch.sigmoid(b).view(-1, CHUNK, s.vh).transpose(1, 2)[..., None]
    g = (-a_log.exp() * F.softplus(a + dt)).view(-1, CHUNK, s.vh).transpose(1, 2).cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=x.device).tril()
    decay = torch.where(lower, g[..., :, None] - g[..., None, :], -1e30).exp()
    rep = s.vh // s.kh
    kk = (k @ k.mT).repeat_interleave(rep, 1)
    qk = (q @ k.mT).repeat_interleave(rep, 1)
    q, k = q.repeat_interleave(rep, 1), k.repeat_interleave(rep, 1)
    inv = UnitLowerInverse.apply((beta * decay * kk).tril(-1))
    grow = g.exp()[..., None]
    u, w = inv @ (beta * v), inv @ (beta * grow * k)
    p = decay * qk
    last = g[..., -1:]
    kt = (last - g).exp()[..., None] * k
    eye = torch.eye(d, device=x.device)
    m = last.exp()[..., None] * eye - w.mT @ kt
    return m, u.mT @ kt, grow * q - p @ w, p @ u, z


def scan(m: Tensor, n: Tensor, rows: int) -> Tensor:
    """State before each chunk, [chunks, VH, dv, dk], for `rows` rows of equal length."""
    m, n = m.unflatten(0, (rows, -1)), n.unflatten(0, (rows, -1))
    state = torch.zeros_like(n[:, 0])
    out = [state]
    for i in range(m.shape[1] - 1):
        state = torch.baddbmm(n[:, i].flatten(0, 1), state.flatten(0, 1), m[:, i].flatten(0, 1))
        state = state.view(n[:, 0].shape)
        out.append(state)
    return torch.stack(out, 1).flatten(0, 1)


def moe(x, norm, router, gu, dn, sgu, sg, sdn, valid, s: Shape, dtype):  # type: ignore[no-untyped-def]
    """x plus its experts and shared expert, and the load-balance loss. x [N, hidden]."""
    h = zrms(x, norm)
    prob = linear(h, router, dtype).float().softmax(-1)
    least = prob.topk(s.topk, -1).values[:, -1:].detach()
    chosen = prob >= least
    weight = torch.where(chosen, prob, 0.0)
    weight = weight / weight.sum(-1, keepdim=True)
    share = (chosen * valid).sum(0) / valid.sum()
    balance = s.experts / s.topk * (share * (prob * valid).sum(0) / valid.sum()).sum()
    h = h.to(dtype)
    g, u = linear(h, gu.flatten(0, 1), dtype).unflatten(-1, (s.experts, -1)).chunk(2, -1)
    mid = (F.silu(g) * u * weight[..., None].to(dtype)).flatten(1)
    y = linear(mid, dn.transpose(0, 1).flatten(1), dtype)
    a, b = linear(h, sgu, dtype).chunk(2, -1)
    gate = torch.sigmoid(linear(h, sg, dtype).float())
    return x + y + gate * linear(F.silu(a) * b, sdn, dtype), balance


def gdn_post(x, o1, r, state, z, gnorm, w_out, s: Shape, dtype):  # type: ignore[no-untyped-def]
    """Read the states, norm, gate and project; residual added."""
    o = (o1 + r @ state.mT).transpose(1, 2).reshape(-1, s.vh, s.gdn)
    o = gnorm * (o * torch.rsqrt(o.pow(2).mean(-1, keepdim=True) + 1e-6))
    o = o * F.silu(z.float().view(-1, s.vh, s.gdn))
    return x + linear(o.flatten(1), w_out, dtype)


def attn_pre(x, norm, w_q, w_kv, qn, kn, pos, s: Shape, dtype):  # type: ignore[no-untyped-def]
    """Return q, gate, k, v as [N, heads, D]."""
    h = zrms(x, norm).to(dtype)
    q, gate = linear(h, w_q, dtype).view(-1, s.heads, 2 * s.head_dim).chunk(2, -1)
    k, v = linear(h, w_kv, dtype).view(-1, 2 * s.kv_heads, s.head_dim).chunk(2, 1)
    rotary = s.head_dim // 4
    q, k = rope(zrms(q, qn), pos, rotary, s.theta), rope(zrms(k, kn), pos, rotary, s.theta)
    return q.to(dtype), gate.reshape(x.shape[0], -1), k.to(dtype), v


def attn_core(q: Tensor, k: Tensor, v: Tensor, rows: int) -> Tensor:
    """Causal attention within rows. Returns [N, heads * D]."""
    rep = q.shape[1] // k.shape[1]
    q, k, v = (t.unflatten(0, (rows, -1)).transpose(1, 2) for t in (q, k, v))
    k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return o.transpose(1, 2).flatten(0, 1).flatten(1)


def attn_post(x, o, gate, w_o, dtype):  # type: ignore[no-untyped-def]
    """Gate and project; residual added."""
    return x + linear(o.float() * torch.sigmoid(gate.float()), w_o, dtype)


def head_loss(x, norm, embed, labels, weights, dtype):  # type: ignore[no-untyped-def]
    """Cross-entropy [N] of labels under the tied head, times weights."""
    logits = linear(zrms(x, norm), embed, dtype).float()
    return F.cross_entropy(logits, labels, reduction="none") * weights


class Target(nn.Module):
    """All parameters in fp32, stacked by kind of layer."""

    def __init__(self, s: Shape, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.s, self.dtype = s, dtype
        h, L, G, A = s.hidden, s.layers, len(s.linear), len(s.full)
        kd, vd, D = s.kh * s.gdn, s.vh * s.gdn, s.head_dim

        def matrix(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(*size) * size[-1] ** -0.5 * 0.7)

        def zeros(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(*size))

        self.embed = nn.Parameter(torch.randn(s.vocab, h) * 0.03)
        self.norm1, self.norm2, self.norm = zeros(L, h), zeros(L, h), zeros(h)
        self.gdn_qkv, self.gdn_z = matrix(G, 2 * kd + vd, h), matrix(G, vd, h)
        self.gdn_ba = matrix(G, 2 * s.vh, h)
        conv = torch.randn(G, 2 * kd + vd, 4) * 0.1
        conv[..., 3] += 0.6
        self.gdn_conv = nn.Parameter(conv)
        self.gdn_a_log = nn.Parameter(torch.linspace(1, 8, s.vh).log().repeat(G, 1))
        step = torch.logspace(-3, -1, s.vh).flip(0)
        self.gdn_dt = nn.Parameter((step + (-(-step).expm1()).log()).repeat(G, 1))
        self.gdn_norm = nn.Parameter(torch.ones(G, s.gdn))
        self.gdn_out = zeros(G, h, vd)
        self.att_q, self.att_k = matrix(A, 2 * s.heads * D, h), matrix(A, s.kv_heads * D, h)
        self.att_v = matrix(A, s.kv_heads * D, h)
        self.att_qn, self.att_kn = zeros(A, D), zeros(A, D)
        self.att_o = zeros(A, h, s.heads * D)
        self.router = nn.Parameter(torch.randn(L, s.experts, h) * 0.02)
        self.exp_gu = matrix(L, s.experts, 2 * s.expert, h)
        self.exp_dn = zeros(L, s.experts, h, s.expert)
        self.sh_gu, self.sh_dn = matrix(L, 2 * s.shared, h), zeros(L, h, s.shared)
        self.sh_gate = zeros(L, 1, h)
        self.pieces = {
            f.__name__: f for f in (gdn_pre, gdn_post, attn_pre, attn_post, moe, head_loss)
        }

    def compile(self) -> None:  # type: ignore[override]
        """Compile the token-wise pieces; each has one shape."""
        self.pieces = {n: torch.compile(f, dynamic=False) for n, f in self.pieces.items()}

    def mixer(self, i: int, x: Tensor, pos: Tensor, rows: int) -> Tensor:
        """Layer i's GDN or attention with its residual."""
        f, s, dtype = self.pieces, self.s, self.dtype
        norm = self.layer("norm1", i)
        if i in s.linear:
            j = s.linear.index(i)
            p = {
                n: self.layer(f"gdn_{n}", j)
                for n in ["qkv", "z", "ba", "conv", "a_log", "dt", "norm", "out"]
            }
            w_in = torch.cat([p["qkv"], p["z"], p["ba"]])
            m, n, r, o1, z = f["gdn_pre"](
                x, norm, w_in, p["conv"], p["a_log"], p["dt"], pos, s, dtype
            )
            state = scan(m, n, rows)
            return f["gdn_post"](x, o1, r, state, z, p["norm"], p["out"], s, dtype)
        j = s.full.index(i)
        p = {n: self.layer(f"att_{n}", j) for n in ["q", "k", "v", "qn", "kn", "o"]}
        w_kv = torch.cat([p["k"], p["v"]])
        q, gate, k, v = f["attn_pre"](x, norm, p["q"], w_kv, p["qn"], p["kn"], pos, s, dtype)
        return f["attn_post"](x, attn_core(q, k, v, rows), gate, p["o"], dtype)

    def layer(self, name: str, i: int) -> Tensor:
        """Slice i of a stacked parameter; unbound once a pass so that gradients stack once."""
        if name not in self._slices:
            self._slices[name] = getattr(self, name).unbind(0)
        return self._slices[name][i]

    def body(self, ids: Tensor, taps: tuple[int, ...] = ()) -> tuple[Tensor, list[Tensor], Tensor]:
        """Residual [N, hidden] after all layers, the tapped residuals and the balance loss.

        Args:
            ids: [rows, T] int64, T a multiple of 32; each row starts at position 0.
            taps: layers whose output to keep.
        """
        self._slices: dict[str, tuple[Tensor, ...]] = {}
        rows, length = ids.shape
        pos = torch.arange(length, device=ids.device).repeat(rows)
        valid = (ids.flatten() >= 0)[:, None].float()
        x = self.embed[ids.flatten().clamp(min=0)]
        kept, balance = [], x.new_zeros(())
        names = ["router", "exp_gu", "exp_dn", "sh_gu", "sh_gate", "sh_dn"]
        for i in range(self.s.layers):
            x = self.mixer(i, x, pos, rows)
            args = [self.layer(n, i) for n in names]
            x, extra = self.pieces["moe"](
                x, self.layer("norm2", i), *args, valid, self.s, self.dtype
            )
            balance = balance + extra
            if i in taps:
                kept.append(x)
        return x, kept, balance / self.s.layers

    def loss(self, ids: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Weighted cross-entropy of each position, [N], and the balance loss."""
        x, _, balance = self.body(ids)
        args = (labels.flatten(), weights.flatten(), self.dtype)
        return self.pieces["head_loss"](x, self.norm, self.embed, *args), balance

    def logits(self, ids: Tensor) -> Tensor:
        """Logits [rows, T, vocab] in fp32."""
        x, _, _ = self.body(ids)
        out = linear(zrms(x, self.norm), self.embed, self.dtype).float()
        return out.view(*ids.shape, -1)
