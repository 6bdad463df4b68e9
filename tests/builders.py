"""Random small targets and drafters, and the same weights in other people's implementations."""

from __future__ import annotations

import dataclasses

import torch

from hybridspec.model.config import DrafterConfig, TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

PATTERN = ("linear_attention",) * 3 + ("full_attention",)


def target_config(**changes) -> TargetConfig:
    base = TargetConfig(
        vocab_size=97,
        hidden_size=64,
        layer_types=PATTERN * 2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        num_experts=8,
        num_experts_per_tok=3,
        moe_intermediate_size=24,
        shared_expert_intermediate_size=40,
        max_position_embeddings=512,
    )
    return dataclasses.replace(base, **changes)


def drafter_config(target: TargetConfig, **changes) -> DrafterConfig:
    base = DrafterConfig(
        vocab_size=target.vocab_size,
        hidden_size=target.hidden_size,
        intermediate_size=96,
        layer_types=("sliding_attention", "sliding_attention", "full_attention"),
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        block_size=16,
        mask_token_id=target.vocab_size - 1,
        target_layer_ids=(1, 3, target.num_hidden_layers - 2),
        num_target_layers=target.num_hidden_layers,
        sliding_window=24,
        max_position_embeddings=512,
    )
    return dataclasses.replace(base, **changes)


def fill(model: Target | Drafter, seed: int, scale: float = 0.12) -> None:
    """Weights with non-trivial norms, gates and decays, the same for every dtype."""
    generator = torch.Generator().manual_seed(seed)
    for name, slot in model.slots().items():
        noise = torch.randn(slot.shape, generator=generator, dtype=torch.float64)
        plain_norm = isinstance(model, Drafter) or name.endswith("linear_attn.norm.weight")
        if slot.ndim >= 2:
            noise *= scale
        elif name.endswith("norm.weight"):
            noise = 0.3 * noise + (1.0 if plain_norm else 0.0)
        slot.copy_(noise)
    model.prepare()


def random_target(config: TargetConfig, seed: int = 0, dtype=torch.float32, context=512) -> Target:
    target = Target(config, dtype=dtype)
    fill(target, seed)
    target.set_context(context)
    return target


def random_drafter(
    config: DrafterConfig, seed: int = 1, dtype=torch.float32, context: int = 512
) -> Drafter:
    drafter = Drafter(config, dtype=dtype)
    fill(drafter, seed)
    drafter.set_context(context)
    return drafter


def hf_target(target: Target):
    """transformers' Qwen3_5MoeForCausalLM with the same weights."""
    from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

    config = dataclasses.asdict(target.config)
    rope = {
        "rope_type": "default",
        "rope_theta": config.pop("rope_theta"),
        "partial_rotary_factor": config.pop("partial_rotary_factor"),
    }
    config["layer_types"] = list(config["layer_types"])
    hf = Qwen3_5MoeForCausalLM(
        Qwen3_5MoeTextConfig(
            **config,
            num_hidden_layers=target.config.num_hidden_layers,
            rope_parameters=rope,
            attn_implementation="eager",
            experts_implementation="eager",  # the default grouped product has no float64
        )
    )
    hf = hf.to(target.dtype).eval()
    ours = {f"model.{k}" if k != "lm_head.weight" else k: v for k, v in target.slots().items()}
    missing, unexpected = hf.load_state_dict(ours, strict=False)
    assert not unexpected
    assert set(missing) <= {"lm_head.weight"}
    return hf
