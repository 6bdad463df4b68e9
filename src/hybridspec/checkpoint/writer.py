"""Models written as the published checkpoints are: nested config, prefixed names, sharded files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from hybridspec.checkpoint.drafter_config import DRAFTER
from hybridspec.checkpoint.shards import INDEX, SINGLE
from hybridspec.checkpoint.target_config import TARGET
from hybridspec.model.config import DrafterConfig, TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

SHARD_BYTES = 4 * 10**9
PREFIX = "model.language_model."


def save_target(
    folder: Path,
    target: Target,
    *,
    dtype: torch.dtype | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Writes `config.json` and the weights of a target.

    Args:
        folder: made if it does not exist. Weights of an earlier save there are removed.
        target: its slots hold the weights.
        dtype: dtype of every tensor on disk; None keeps that of the slots.
        shard_bytes: most bytes of tensors in a file, unless one tensor is larger.
    """
    named = {
        name if name == "lm_head.weight" else PREFIX + name: slot
        for name, slot in target.slots().items()
    }
    _save(folder, target_json(target.config, dtype or target.dtype), named, dtype, shard_bytes)


def save_drafter(
    folder: Path,
    drafter: Drafter,
    *,
    dtype: torch.dtype | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> None:
    """Writes `config.json` and the weights of a drafter. Arguments as `save_target`."""
    config = drafter_json(drafter.config, dtype or drafter.dtype)
    _save(folder, config, drafter.slots(), dtype, shard_bytes)


def target_json(config: TargetConfig, dtype: torch.dtype) -> dict[str, object]:
    """The `config.json` of a target, in the nested form of Qwen3.5."""
    text = asdict(config) | {"layer_types": list(config.layer_types)}
    rope = {
        "rope_type": "default",
        "rope_theta": text.pop("rope_theta"),
        "partial_rotary_factor": config.partial_rotary_factor,
        "mrope_interleaved": True,
        "mrope_section": _mrope_section(config.rotary_dim // 2),
    }
    text |= {
        "model_type": "qwen3_5_moe_text",
        "num_hidden_layers": config.num_hidden_layers,
        "rope_parameters": rope,
        "hidden_act": "silu",
        "attention_bias": False,
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "dtype": _dtype_name(dtype),
    }
    return {
        "architectures": [TARGET.architectures[0]],
        "model_type": "qwen3_5_moe",
        "tie_word_embeddings": config.tie_word_embeddings,
        "text_config": text,
    }


def drafter_json(config: DrafterConfig, dtype: torch.dtype) -> dict[str, object]:
    """The `config.json` of a drafter, in the current form of DFlash."""
    top = asdict(config) | {"layer_types": list(config.layer_types)}
    block: dict[str, object] = {
        name: top.pop(name) for name in ("block_size", "mask_token_id", "target_layer_ids")
    }
    if config.is_causal is None:
        del top["is_causal"]
    return top | {
        "architectures": list(DRAFTER.architectures),
        "model_type": DRAFTER.model_types[0],
        "num_hidden_layers": config.num_hidden_layers,
        "rope_parameters": {"rope_type": "default", "rope_theta": top.pop("rope_theta")},
        "use_sliding_window": config.sliding_window is not None,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "dtype": _dtype_name(dtype),
        "dflash_config": block,
    }


def _mrope_section(pairs: int) -> list[int]:
    """Rotary pairs shared out over the three position axes as Qwen3.5 does: [11, 11, 10] of 32."""
    return [pairs // 3 + (axis < pairs % 3) for axis in range(3)]


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _save(
    folder: Path,
    config: Mapping[str, object],
    named: Mapping[str, Tensor],
    dtype: torch.dtype | None,
    shard_bytes: int,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("model*.safetensors"), folder / INDEX):
        old.unlink(missing_ok=True)
    _write_json(folder / "config.json", config)
    shards = list(_shards(named, dtype, shard_bytes))
    weight_map: dict[str, str] = {}
    for i, names in enumerate(shards, 1):
        file = SINGLE if len(shards) == 1 else f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        tensors = {name: _alone(named[name], dtype) for name in names}
        save_file(tensors, folder / file, {"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    if len(shards) > 1:
        size = sum(_nbytes(tensor, dtype) for tensor in named.values())
        metadata = {"total_size": size}
        _write_json(folder / INDEX, {"metadata": metadata, "weight_map": weight_map})


def _alone(slot: Tensor, dtype: torch.dtype | None) -> Tensor:
    """A copy in host memory: slots may be views into fused storage, files hold single tensors."""
    copy = torch.empty(slot.shape, dtype=dtype or slot.dtype)
    return copy.copy_(slot)


def _shards(
    named: Mapping[str, Tensor], dtype: torch.dtype | None, limit: int
) -> Iterator[list[str]]:
    """Names in order, cut where the next tensor would pass the limit."""
    names: list[str] = []
    size = 0
    for name, tensor in named.items():
        nbytes = _nbytes(tensor, dtype)
        if names and size + nbytes > limit:
            yield names
            names, size = [], 0
        names.append(name)
        size += nbytes
    yield names


def _nbytes(tensor: Tensor, dtype: torch.dtype | None) -> int:
    return tensor.numel() * (dtype or tensor.dtype).itemsize


def _write_json(path: Path, data: Mapping[str, object]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
