"""The shapes of a target and of a drafter. `checkpoint/` reads them from `config.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TargetLayer = Literal["linear_attention", "full_attention"]
DrafterLayer = Literal["sliding_attention", "full_attention"]


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """A hybrid GDN-MoE target (Qwen3.5/3.6-MoE text model); names as in `config.json`."""

    vocab_size: int
    hidden_size: int
    layer_types: tuple[TargetLayer, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int
    linear_conv_kernel_dim: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    partial_rotary_factor: float = 0.25
    max_position_embeddings: int = 262144
    tie_word_embeddings: bool = False

    @property
    def num_hidden_layers(self) -> int:
        """L, the number of layers."""
        return len(self.layer_types)

    @property
    def linear_layers(self) -> tuple[int, ...]:
        """Indices of the GDN layers."""
        return tuple(i for i, t in enumerate(self.layer_types) if t == "linear_attention")

    @property
    def full_layers(self) -> tuple[int, ...]:
        """Indices of the attention layers."""
        return tuple(i for i, t in enumerate(self.layer_types) if t == "full_attention")

    @property
    def key_dim(self) -> int:
        """Width of all GDN keys (and of all queries)."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_dim(self) -> int:
        """Width of all GDN values."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def conv_dim(self) -> int:
        """C, the channels of the GDN convolution: q, k and v side by side."""
        return 2 * self.key_dim + self.value_dim

    @property
    def rotary_dim(self) -> int:
        """Leading dimensions of an attention head that are rotated."""
        return int(self.head_dim * self.partial_rotary_factor)


@dataclass(frozen=True, slots=True)
class DrafterConfig:
    """A DFlash drafter. It has no embedding and no head of its own: both are the target's."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[DrafterLayer, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    block_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    num_target_layers: int
    sliding_window: int | None = None
    is_causal: bool | None = None
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1e7
    max_position_embeddings: int = 262144

    @property
    def num_hidden_layers(self) -> int:
        """Number of drafter layers."""
        return len(self.layer_types)

    @property
    def num_drafts(self) -> int:
        """D, the tokens a block proposes: the anchor takes the first row."""
        return self.block_size - 1
