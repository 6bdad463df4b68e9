"""What a pass writes beside the sequence's own state: one set serves all layers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.attention.forms import Form
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.linear.norm import Normed
from hybridspec.kernels.moe.route import Routed
from hybridspec.model.config import TargetConfig


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths of a round, [] int32 views of one tensor `all` [4] on the device.

    position: P, tokens committed. looked: u, inputs of Stage 0. verified: w, inputs of Stage 1.
    kept: m, inputs to commit.
    """

    all: Tensor

    @classmethod
    def empty(cls, device: torch.device) -> Lengths:
        """All zero."""
        return cls(torch.zeros(4, dtype=torch.int32, device=device))

    @property
    def position(self) -> Tensor:
        """P."""
        return self.all[0]

    @property
    def looked(self) -> Tensor:
        """u."""
        return self.all[1]

    @property
    def verified(self) -> Tensor:
        """w."""
        return self.all[2]

    @property
    def kept(self) -> Tensor:
        """m."""
        return self.all[3]


@dataclass(frozen=True, slots=True)
class Buffers:
    """tokens [16] int64. x [16, K], the residual stream. features [16, taps K]: of the tapped
    layers. normed: of the stream before the next norm. qkv [16, R] and q [16, H, D], attended
    [16, H D]: of an attention layer. gated [16, VH, dv] and squares: of a GDN layer. h [places, 16,
    I] and shared [16, S]: inner values of experts. logits [16, V] fp32. form: of
    the attention.
    """

    lengths: Lengths
    tokens: Tensor
    x: Tensor
    features: Tensor
    normed: Normed
    qkv: Tensor
    q: Tensor
    attended: Tensor
    gated: Tensor
    squares: Tensor
    routed: Routed
    h: Tensor
    shared: Tensor
    logits: Tensor
    space: Workspace
    form: Form

    @classmethod
    def empty(
        cls, c: TargetConfig, taps: int, blocks: int, rows: int, device: torch.device,
        dtype: torch.dtype,
    ) -> Buffers:  # fmt: skip
        """Zeros, so that rows beyond a length start finite. blocks: of a head's squares; rows: of
        the cache of keys."""

        def zeros(*shape: int, of: torch.dtype = dtype) -> Tensor:
            return torch.zeros(shape, device=device, dtype=of)

        heads, kv, size = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        form = Form.of_target(heads, kv, size, dtype, device)
        space = form.room(heads, kv, size, rows, device)
        places = min(c.num_experts, ROWS * c.num_experts_per_tok)
        return cls(
            Lengths.empty(device), zeros(ROWS, of=torch.int64), zeros(ROWS, c.hidden_size),
            zeros(ROWS, taps * c.hidden_size), Normed.empty(c.hidden_size, dtype, device),
            zeros(ROWS, 2 * (heads + kv) * size), zeros(ROWS, heads, size),
            zeros(ROWS, heads * size),
            zeros(ROWS, c.linear_num_value_heads, c.linear_value_head_dim),
            zeros(ROWS, c.linear_num_value_heads, blocks, of=torch.float32),
            Routed.empty(c.num_experts, c.num_experts_per_tok, device),
            zeros(places, ROWS, c.moe_intermediate_size),
            zeros(ROWS, c.shared_expert_intermediate_size),
            zeros(ROWS, c.vocab_size, of=torch.float32), _space(*space, device), form,
        )  # fmt: skip


def _space(parts: int, counters: int, device: torch.device) -> Workspace:
    """Room for whichever kernel needs most: attention, or a split product."""
    return Workspace.empty(device, max(parts, 1 << 20), max(counters, 4096))
