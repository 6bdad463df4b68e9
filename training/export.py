"""Write and read the pair as the real checkpoints are: bf16 safetensors, Hugging Face names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from training.target import Shape, Target
from training.tokenizer import BASE_VOCAB, MASK_ID

PREFIX = "model.language_model."
SHARD_BYTES = 13 * 2**20
# stacked parameter -> name within a layer
GDN = {
    "gdn_qkv": "linear_attn.in_proj_qkv.weight",
    "gdn_z": "linear_attn.in_proj_z.weight",
    "gdn_conv": "linear_attn.conv1d.weight",
    "gdn_a_log": "linear_attn.A_log",
    "gdn_dt": "linear_attn.dt_bias",
    "gdn_norm": "linear_attn.norm.weight",
    "gdn_out": "linear_attn.out_proj.weight",
}
FULL = {
    "att_q": "self_attn.q_proj.weight",
    "att_k": "self_attn.k_proj.weight",
    "att_v": "self_attn.v_proj.weight",
    "att_qn": "self_attn.q_norm.weight",
    "att_kn": "self_attn.k_norm.weight",
    "att_o": "self_attn.o_proj.weight",
}
BOTH = {
    "norm1": "input_layernorm.weight",
    "norm2": "post_attention_layernorm.weight",
    "router": "mlp.gate.weight",
    "exp_gu": "mlp.experts.gate_up_proj",
    "exp_dn": "mlp.experts.down_proj",
    "sh_gate": "mlp.shared_expert_gate.weight",
    "sh_dn": "mlp.shared_expert.down_proj.weight",
}


def target_config(s: Shape) -> dict[str, Any]:
    """The target's config.json."""
    end = BASE_VOCAB
    pairs = s.head_dim // 8
    sections = [pairs - 2 * (pairs * 5 // 16), pairs * 5 // 16, pairs * 5 // 16]
    text = {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "bos_token_id": end,
        "dtype": "bfloat16",
        "eos_token_id": end,
        "full_attention_interval": 4,
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "hidden_size": s.hidden,
        "initializer_range": 0.02,
        "layer_types": [
            "full_attention" if i in s.full else "linear_attention" for i in range(s.layers)
        ],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": s.gdn,
        "linear_num_key_heads": s.kh,
        "linear_num_value_heads": s.vh,
        "linear_value_head_dim": s.gdn,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 32768,
        "model_type": "qwen3_5_moe_text",
        "moe_intermediate_size": s.expert,
        "num_attention_heads": s.heads,
        "num_experts": s.experts,
        "num_experts_per_tok": s.topk,
        "num_hidden_layers": s.layers,
        "num_key_value_heads": s.kv_heads,
        "output_router_logits": False,
        "pad_token_id": None,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": sections,
            "partial_rotary_factor": 0.25,
            "rope_theta": int(s.theta),
            "rope_type": "default",
        },
        "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": s.shared,
        "tie_word_embeddings": True,
        "use_cache": True,
        "vocab_size": s.vocab,
    }
    special = {"image_token_id": 12, "video_token_id": 13}
    special |= {"vision_start_token_id": 9, "vision_end_token_id": 10}
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        **{k: BASE_VOCAB + v for k, v in special.items()},
        "model_type": "qwen3_5_moe",
        "text_config": text,
        "tie_word_embeddings": True,
    }


def to_names(model: Target) -> dict[str, Tensor]:
    """Return the target's tensors under their checkpoint names."""
    s, out = model.s, {"embed_tokens.weight": model.embed, "norm.weight": model.norm}
    for layer in range(s.layers):
        linear = layer in s.linear
        j = (s.linear if linear else s.full).index(layer)
        p = f"layers.{layer}."
        for own, name in (GDN if linear else FULL).items():
            value = getattr(model, own)[j]
            out[p + name] = value[:, None] if own == "gdn_conv" else value
        if linear:
            b, a = model.gdn_ba[j].chunk(2)
            out[p + "linear_attn.in_proj_b.weight"] = b
            out[p + "linear_attn.in_proj_a.weight"] = a
        for own, name in BOTH.items():
            out[p + name] = getattr(model, own)[layer]
        gate, up = model.sh_gu[layer].chunk(2)
        out[p + "mlp.shared_expert.gate_proj.weight"] = gate
        out[p + "mlp.shared_expert.up_proj.weight"] = up
    return {PREFIX + k: v for k, v in out.items()}


def save_shards(tensors: dict[str, Tensor], out: Path) -> None:
    """Write bf16 shards below SHARD_BYTES and their index; one file needs no index."""
    out.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Tensor]] = [{}]
    used = 0
    for name, value in tensors.items():
        value = value.detach().to("cpu", torch.bfloat16).contiguous().clone()
        if used + value.nbytes > SHARD_BYTES:
            shards.append({})
            used = 0
        used += value.nbytes
        shards[-1][name] = value
    total = sum(v.nbytes for s in shards for v in s.values())
    if len(shards) == 1:
        save_file(shards[0], out / "model.safetensors", {"format": "pt"})
        return
    where = {}
    for i, shard in enumerate(shards):
        file = f"model.safetensors-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, out / file, {"format": "pt"})
        where |= dict.fromkeys(shard, file)
    index = {"metadata": {"total_size": total}, "weight_map": where}
    write_json(out / "model.safetensors.index.json", index)


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Write indented JSON."""
    path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_shards(folder: Path) -> dict[str, Tensor]:
    """Read every tensor of a folder."""
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118
                out[name] = file.get_tensor(name)
    return out


def save_target(model: Target, out: Path) -> None:
    """Write the target's weights and config."""
    save_shards(to_names(model), out)
    write_json(out / "config.json", target_config(model.s))


@torch.no_grad()
def load_target(model: Target, folder: Path) -> None:
    """Copy a saved target's weights into the training model."""
    tensors = read_shards(folder)
    names = to_names(model)
    if set(names) != set(tensors):
        raise SystemExit(f"{folder} does not hold this target: {set(names) ^ set(tensors)}")
    for name, slot in names.items():
        slot.data.copy_(tensors[name])


def drafter_config(d: Any, s: Shape) -> dict[str, Any]:
    """The drafter's config.json, of the current generation."""
    return {
        "architectures": ["DFlashDraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
        "bos_token_id": None,
        "dflash_config": {
            "block_size": d.block,
            "mask_token_id": MASK_ID,
            "target_layer_ids": list(d.taps),
        },
        "dtype": "bfloat16",
        "eos_token_id": None,
        "head_dim": d.head_dim,
        "hidden_act": "silu",
        "hidden_size": s.hidden,
        "initializer_range": 0.02,
        "intermediate_size": d.mlp,
        **({"is_causal": True} if d.causal else {}),
        "layer_types": ["sliding_attention" if w else "full_attention" for w in d.windows],
        "max_position_embeddings": 32768,
        "max_window_layers": len(d.windows),
        "model_type": "qwen3",
        "num_attention_heads": d.heads,
        "num_hidden_layers": len(d.windows),
        "num_key_value_heads": d.kv_heads,
        "num_target_layers": s.layers,
        "rms_norm_eps": 1e-06,
        "rope_parameters": {"rope_theta": int(s.theta), "rope_type": "default"},
        "sliding_window": max(d.windows),
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": True,
        "vocab_size": s.vocab,
    }
