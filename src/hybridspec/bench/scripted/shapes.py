"""The models that can be scripted: their sizes, and the tokens that no text of theirs holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hybridspec.kernels.bench.setting import SHAPES as SIZES
from hybridspec.model.config import DrafterConfig, TargetConfig


@dataclass(frozen=True, slots=True)
class Shape:
    """A target, its drafter, and the ids of stop tokens, of the mask and of padding rows."""

    target: TargetConfig
    drafter: DrafterConfig
    outside: Collection[int]


def _35b() -> Shape:
    """Qwen3.5/3.6-35B-A3B and its DFlash drafter, of which all sizes are published."""
    target, mask = SIZES["35b"].target(), 248077  # the first padding row
    drafter = DrafterConfig(
        vocab_size=target.vocab_size, hidden_size=2048, intermediate_size=6144,
        layer_types=(*("sliding_attention",) * 5, "full_attention"), num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, block_size=16, mask_token_id=mask,
        target_layer_ids=(1, 6, 11, 16, 22, 27, 32, 37), num_target_layers=40, sliding_window=4096,
    )  # fmt: skip
    return Shape(target, drafter, {248044, 248046, *range(mask, target.vocab_size)})


def _small() -> Shape:
    """A CPU's: wide for its vocabulary, so that tokens stay apart as those of the 35B do."""
    target = TargetConfig(
        vocab_size=520, hidden_size=384, layer_types=SIZES["35b"].target().layer_types[:8],
        num_attention_heads=4, num_key_value_heads=2, head_dim=64, linear_num_key_heads=2,
        linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32, num_experts=32,
        num_experts_per_tok=4, moe_intermediate_size=32, shared_expert_intermediate_size=64,
    )  # fmt: skip
    drafter = DrafterConfig(
        vocab_size=520, hidden_size=384, intermediate_size=64,
        layer_types=("sliding_attention", "full_attention"), num_attention_heads=4,
        num_key_value_heads=2, head_dim=32, block_size=16, mask_token_id=513,
        target_layer_ids=(0, 3, 6), num_target_layers=8, sliding_window=64,
    )  # fmt: skip
    return Shape(target, drafter, {500, 502, *range(512, 520)})


SHAPES = {"35b": _35b(), "small": _small()}
