"""A DFlash drafter's `config.json` in, `DrafterConfig` out, for both generations of the format.

The old one has `block_size` at the top level and no `layer_types` or only full ones; the current
one keeps everything about the block in `dflash_config` and mixes sliding and full layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from hybridspec.checkpoint.config import (
    Kind,
    open_config,
    read_layer_types,
    read_rope,
    require_multiple,
)
from hybridspec.checkpoint.fields import MAX_LAYERS, MAX_POSITIONS, Fields, agreed
from hybridspec.errors import CheckpointError
from hybridspec.model.config import DrafterConfig, DrafterLayer

DRAFTER = Kind(role="drafter", architectures=("DFlashDraftModel",), model_types=("qwen3",))
SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
)


def read_drafter_config(folder: Path) -> DrafterConfig:
    """Reads the drafter's shapes from `folder/config.json`.

    Raises:
        CheckpointError: not a DFlash drafter, quantised, or a value the engine lacks.
    """
    top = open_config(folder, DRAFTER)
    block = top.section("dflash_config")
    _refuse_unsupported(top, block)
    layer_types = _layer_types(top)
    require_multiple(top, "num_attention_heads", "num_key_value_heads")
    places = (block, top)
    return DrafterConfig(
        **{name: top.integer(name) for name in SIZES},
        layer_types=layer_types,
        max_position_embeddings=top.integer("max_position_embeddings", most=MAX_POSITIONS),
        block_size=agreed("block_size", places).integer("block_size"),
        mask_token_id=agreed("mask_token_id", places).integer("mask_token_id", least=0),
        target_layer_ids=agreed("target_layer_ids", places).integers("target_layer_ids"),
        num_target_layers=agreed("num_target_layers", places).integer("num_target_layers"),
        sliding_window=_sliding_window(top, layer_types),
        is_causal=agreed("is_causal", places).flag("is_causal"),
        rms_norm_eps=top.number("rms_norm_eps", 1e-6),
        rope_theta=_theta(top),
    )


def _refuse_unsupported(top: Fields, block: Fields) -> None:
    top.only("attention_bias", False)
    top.only("hidden_act", "silu")
    for place in (top, block):
        place.only("input_embedding_scale", 1)
        place.only("output_multiplier", 1)
        place.only("final_logit_softcapping", 0)


def _layer_types(top: Fields) -> tuple[DrafterLayer, ...]:
    listed = read_layer_types(top, ("sliding_attention", "full_attention"))
    if listed is not None:
        return cast(tuple[DrafterLayer, ...], listed)
    # A window without layer_types could start at any layer; drafters without them have none.
    top.only("use_sliding_window", False)
    count = top.integer("num_hidden_layers", most=MAX_LAYERS)
    return tuple("full_attention" for _ in range(count))


def _sliding_window(top: Fields, layer_types: Sequence[str]) -> int | None:
    if "sliding_attention" not in layer_types:
        return None
    top.only("use_sliding_window", True)
    return top.integer("sliding_window", most=MAX_POSITIONS)


def _theta(top: Fields) -> float:
    theta, partial = read_rope(top)
    if partial not in (None, 1.0):
        raise CheckpointError(
            f"{top.where}: partial_rotary_factor is {partial}; expected 1: a drafter rotates whole "
            "heads."
        )
    return theta
