"""What a drafter's passes write beside the sequence's own state."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.attention.split import room
from hybridspec.kernels.head.head import Answer, Tiles
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.linear.norm import Normed
from hybridspec.model.config import DrafterConfig
from hybridspec.runtime.drafter_state import DrafterSlot


@dataclass(frozen=True, slots=True)
class DraftLengths:
    """Lengths of a drafter's passes, [] int32 views of one tensor `all` [4] on the device.

    held: tokens of the context before `added` ones join it. position: P, those before the block.
    block: rows of the block, the anchor's among them.
    """

    all: Tensor

    @property
    def held(self) -> Tensor:
        """Where the added tokens begin."""
        return self.all[0]

    @property
    def added(self) -> Tensor:
        """m."""
        return self.all[1]

    @property
    def position(self) -> Tensor:
        """P, the anchor's position."""
        return self.all[2]

    @property
    def block(self) -> Tensor:
        """1 + the drafts wanted, or all rows."""
        return self.all[3]


@dataclass(frozen=True, slots=True)
class DrafterBuffers:
    """tokens [16] int64, the anchor and then masks. features [16, taps K], of tokens to add; kv
    [16, L 2 KV D], their keys and values. x [16, K], the residual stream, and `normed`; nothing
    [16, K], zeros for it to begin with. qkv [16, R], q [16, H, D] and attended [16, H D]; inner
    [16, I], of the MLP. answer: the target's next inputs, and how sure of them.
    """

    lengths: DraftLengths
    tokens: Tensor
    features: Tensor
    kv: Tensor
    x: Tensor
    nothing: Tensor
    normed: Normed
    qkv: Tensor
    q: Tensor
    attended: Tensor
    inner: Tensor
    tiles: Tiles
    answer: Answer
    space: Workspace

    @classmethod
    def empty(cls, c: DrafterConfig, slot: DrafterSlot, vocabulary: int) -> DrafterBuffers:
        """Zeros, so that rows beyond a length start finite. slot: of the dtype and device."""
        device, dtype, k = slot.full.device, slot.full.dtype, c.hidden_size

        def zeros(*shape: int, of: torch.dtype = dtype) -> Tensor:
            return torch.zeros(shape, device=device, dtype=of)

        heads, kv, size = c.num_attention_heads, c.num_key_value_heads, c.head_dim
        tokens = torch.full((ROWS,), c.mask_token_id, device=device)
        return cls(
            DraftLengths(zeros(4, of=torch.int32)), tokens,
            zeros(ROWS, len(c.target_layer_ids) * k),
            zeros(ROWS, c.num_hidden_layers * 2 * kv * size), zeros(ROWS, k), zeros(ROWS, k),
            Normed.empty(k, dtype, device), zeros(ROWS, (heads + 2 * kv) * size),
            zeros(ROWS, heads, size), zeros(ROWS, heads * size), zeros(ROWS, c.intermediate_size),
            Tiles.empty(vocabulary, k, device), Answer.empty(device), _space(c, slot),
        )  # fmt: skip


def _space(c: DrafterConfig, slot: DrafterSlot) -> Workspace:
    """Room for whichever kernel needs most: attention over either cache, or a split product."""
    sizes = c.num_attention_heads, c.num_key_value_heads, c.head_dim
    needed = [room(*sizes, cache.shape[-2]) for cache in (slot.full, slot.ring)]
    parts, counters = (max(numbers) for numbers in zip(*needed, strict=True))
    return Workspace.empty(slot.full.device, max(parts, 1 << 20), max(counters, 4096))
