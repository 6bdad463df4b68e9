"""A target's `config.json` in, `TargetConfig` out."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from hybridspec.checkpoint.config import (
    Kind,
    open_config,
    read_layer_types,
    read_rope,
    refuse_quantized,
    require_multiple,
)
from hybridspec.checkpoint.fields import MAX_LAYERS, MAX_POSITIONS, Fields, agreed
from hybridspec.errors import CheckpointError
from hybridspec.model.config import TargetConfig, TargetLayer

TARGET = Kind(
    role="target",
    architectures=("Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"),
    model_types=("qwen3_5_moe", "qwen3_5_moe_text"),
)
# No default would be right for all of the family, so each must be in the file.
SIZES = (
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
)


def read_target_config(folder: Path) -> TargetConfig:
    """Reads the target's shapes from `folder/config.json`, nested in `text_config` or flat.

    Raises:
        CheckpointError: not a Qwen3.5/3.6-MoE model, quantised, or a value the engine lacks.
    """
    top = open_config(folder, TARGET)
    text = top.section("text_config") if "text_config" in top else top
    refuse_quantized(text)
    _refuse_unsupported(text)
    theta, partial = read_rope(text)
    tied = agreed("tie_word_embeddings", (top, text)).flag("tie_word_embeddings")
    config = TargetConfig(
        **{name: text.integer(name) for name in SIZES},
        layer_types=_layer_types(text),
        max_position_embeddings=text.integer("max_position_embeddings", most=MAX_POSITIONS),
        linear_conv_kernel_dim=text.integer("linear_conv_kernel_dim", 4, least=2),
        rms_norm_eps=text.number("rms_norm_eps", 1e-6),
        rope_theta=theta,
        partial_rotary_factor=0.25 if partial is None else partial,
        tie_word_embeddings=bool(tied),
    )
    _check_relations(config, text)
    return config


def _refuse_unsupported(text: Fields) -> None:
    text.only("attention_bias", False)
    text.only("hidden_act", "silu")
    text.only("attn_output_gate", True)
    text.only("mamba_ssm_dtype", "float32")
    text.only("use_sliding_window", False)
    # Written by some exporters of the family; the model itself has no such switches.
    text.only("norm_topk_prob", True)
    text.only("decoder_sparse_step", 1)
    text.only("mlp_only_layers", [])


def _layer_types(text: Fields) -> tuple[TargetLayer, ...]:
    listed = read_layer_types(text, ("linear_attention", "full_attention"))
    if listed is not None:
        return cast(tuple[TargetLayer, ...], listed)
    interval = text.integer("full_attention_interval", 4)
    return tuple(
        "linear_attention" if (i + 1) % interval else "full_attention"
        for i in range(text.integer("num_hidden_layers", most=MAX_LAYERS))
    )


def _check_relations(config: TargetConfig, text: Fields) -> None:
    """Relations between sizes that the shapes of the tensors would not show."""
    require_multiple(text, "num_attention_heads", "num_key_value_heads")
    require_multiple(text, "linear_num_value_heads", "linear_num_key_heads")
    if config.num_experts_per_tok > config.num_experts:
        raise text.problem("num_experts_per_tok", f"at most num_experts, {config.num_experts}")
    rotated = config.rotary_dim
    if config.partial_rotary_factor > 1 or rotated < 2 or rotated % 2:
        raise CheckpointError(
            f"{text.where}: partial_rotary_factor {config.partial_rotary_factor} rotates {rotated} "
            f"of {config.head_dim} dimensions; expected an even number within the head."
        )
