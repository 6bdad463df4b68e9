"""Attention over a cache that already holds the queries' own keys: one function for all callers."""

from __future__ import annotations

from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels import support
from hybridspec.model.config import TargetConfig
from hybridspec.model.layers import RMSNorm, Rope, product, weight, wide

FEW = 16  # queries up to which plain products beat the fused operator on a CPU


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
    """Softmax attention with grouped heads: q [T, H, D], k and v [KV, n, D] -> [T, H * D].

    `visible` [T, c] says which of the last c keys a query sees; it sees all before those. None: it
    sees all keys.
    """
    if q.shape[0] > FEW:
        if visible is not None:
            visible = F.pad(visible, (k.shape[1] - visible.shape[1], 0), value=True)
        o = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None], k[None], v[None], visible, enable_gqa=True
        )
        return o[0].transpose(0, 1).flatten(1)
    tokens, heads, size = q.shape
    grouped = q.view(tokens, k.shape[0], -1, size).transpose(0, 1)  # [KV, T, H / KV, D]
    scores = torch.bmm(grouped.flatten(1, 2), k.transpose(1, 2)).to(wide(q.dtype)) * size**-0.5
    if visible is not None:
        last = scores.view(*grouped.shape[:3], -1)[..., -visible.shape[1] :]
        last.masked_fill_(~visible[:, None], -torch.inf)
    o = torch.bmm(scores.softmax(-1).to(v.dtype), v).view_as(grouped)
    return o.transpose(0, 1).reshape(tokens, heads * size)


def attend_each(q: Tensor, k: Tensor, v: Tensor, past: int) -> Tensor:
    """Causal attention of T tokens behind `past` others, one token at a time; shapes as `attend`.

    Each token runs the very calls of plain decoding, so its bits depend neither on T nor on where a
    round began. A few tokens cost a CPU little more this way than together.
    """
    tokens, heads, size = q.shape
    grouped = (q * size**-0.5).unflatten(1, (k.shape[0], -1))  # [T, KV, H / KV, D]
    o = torch.empty_like(grouped)
    for t in range(tokens):
        seen = past + t + 1
        scores = torch.bmm(grouped[t], k[:, :seen].transpose(1, 2)).to(wide(q.dtype))
        torch.bmm(scores.softmax(-1).to(v.dtype), v[:, :seen], out=o[t])
    return o.view(tokens, heads * size)


def attend_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of the last T of n tokens; shapes as `attend`. Builds no mask of T x n where
    `flashes`."""
    from torch.nn.attention.bias import causal_lower_right

    bias = causal_lower_right(q.shape[0], k.shape[1])
    o = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None], bias, enable_gqa=True
    )
    return o[0].transpose(0, 1).flatten(1)


def flashes(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether torch has a flash kernel for these on a GPU; says so where it has none."""
    if not q.is_cuda:
        return False
    parts = (q.transpose(0, 1)[None], k[None], v[None])
    parameters = torch.backends.cuda.SDPAParams(*parts, None, 0.0, False, True)
    there: bool = torch.backends.cuda.can_use_flash_attention(parameters)
    if not there:
        support.once(
            "A prompt's attention runs with whole masks, slower than it could: torch has no flash "
            f"kernel for heads of {q.shape[-1]} in {q.dtype} on this card."
        )
    return there


def causal(tokens: int, device: torch.device) -> Tensor:
    """Which of the last `tokens` keys each of as many queries sees: those up to its own."""
    return torch.ones(tokens, tokens, dtype=torch.bool, device=device).tril_()


class GatedAttention:
    """Full attention: per-head q/k norms, partial rotary embedding, sigmoid output gate."""

    def __init__(self, config: TargetConfig, device: torch.device, dtype: torch.dtype) -> None:
        self.config = config
        if device.type == "cuda":  # for `attend_last`: all of dynamo comes with it, in seconds
            import_module("torch.nn.attention.bias")
        heads, kv, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        hidden = config.hidden_size
        self.widths = (2 * heads * size, kv * size, kv * size)
        self.w_in = weight(sum(self.widths), hidden, device=device, dtype=dtype)
        self.w_out = weight(hidden, heads * size, device=device, dtype=dtype)
        self.norm = torch.empty(2, size, device=device, dtype=wide(dtype))

    def slots(self) -> dict[str, Tensor]:
        """Checkpoint name -> view."""
        q, k, v = self.w_in.split(self.widths)
        return {
            "q_proj.weight": q,
            "k_proj.weight": k,
            "v_proj.weight": v,
            "o_proj.weight": self.w_out,
            "q_norm.weight": self.norm[0],
            "k_norm.weight": self.norm[1],
        }

    def prepare(self) -> None:
        """Norms are zero-centred: the factor is 1 + weight, one row a head."""
        heads = (self.config.num_attention_heads, self.config.num_key_value_heads)
        repeats = torch.tensor(heads, device=self.norm.device)
        factor = (1 + self.norm).repeat_interleave(repeats, 0)
        self.qk_norm = RMSNorm(factor, self.config.head_dim, self.config.rms_norm_eps)

    def __call__(
        self,
        u: Tensor,
        keys: Tensor,
        values: Tensor,
        start: int,
        rope: Rope,
    ) -> Tensor:
        """u [T, hidden] at positions start.. -> [T, H * D], not yet projected back.

        Writes keys and values, [KV, rows, D].
        """
        heads, kv, size = (
            self.config.num_attention_heads,
            self.config.num_key_value_heads,
            self.config.head_dim,
        )
        tokens, end = u.shape[0], start + u.shape[0]
        qg, k, v = product(u, self.w_in).split(self.widths, -1)
        q, gate = qg.view(tokens, heads, 2 * size).split(size, -1)
        qk = torch.cat((q, k.view(tokens, kv, size)), 1)
        q, k = rope.rotate(self.qk_norm(qk), start).split((heads, kv), 1)
        keys[:, start:end] = k.transpose(0, 1)
        values[:, start:end] = v.view(tokens, kv, size).transpose(0, 1)
        if u.is_cpu and tokens <= FEW:
            o = attend_each(q, keys, values, start)
        elif tokens > FEW and flashes(q, keys[:, :end], values[:, :end]):
            o = attend_last(q, keys[:, :end], values[:, :end])
        else:
            o = attend(q, keys[:, :end], values[:, :end], causal(tokens, u.device))
        gated: Tensor = o * gate.sigmoid().flatten(1)
        return gated
