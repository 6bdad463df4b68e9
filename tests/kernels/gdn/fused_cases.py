"""Layers from raw columns: a float64 mixer, its inputs as kernels take them, what they write."""

from __future__ import annotations

from typing import NamedTuple

import torch

from hybridspec.kernels.gdn import fused
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import GDNBuffers, GDNMixer

NAN = float("nan")
# key heads, value heads, dk, dv: the embedded pair's head, a real model's, odd ones
SHAPES = [(2, 4, 32, 32), (1, 2, 128, 128), (3, 3, 32, 40), (2, 6, 7, 13)]


class Case(NamedTuple):
    """A float64 mixer and its buffers before a verification, and what a kernel takes of them."""

    mixer: GDNMixer
    buffers: GDNBuffers
    u: torch.Tensor
    raw: torch.Tensor
    gates: fused.Gates
    state: torch.Tensor


class Written(NamedTuple):
    """What a kernel writes."""

    gated: torch.Tensor
    squares: torch.Tensor
    z: torch.Tensor
    k: torch.Tensor
    alpha: torch.Tensor


def config(shape) -> TargetConfig:
    key_heads, value_heads, dk, dv = shape
    return TargetConfig(
        vocab_size=1, hidden_size=24, layer_types=("linear_attention",), num_attention_heads=1,
        num_key_value_heads=1, head_dim=1, linear_num_key_heads=key_heads,
        linear_num_value_heads=value_heads, linear_key_head_dim=dk, linear_value_head_dim=dv,
        num_experts=1, num_experts_per_tok=1, moe_intermediate_size=1,
        shared_expert_intermediate_size=1,
    )  # fmt: skip


def case(shape, device, seed=0, shift=0.0) -> Case:
    """shift is added to the decay's bias: alpha near 1 where it is low, near 0 where it is high."""
    sizes, g = config(shape), torch.Generator().manual_seed(seed)
    mixer = GDNMixer(sizes, torch.device("cpu"), torch.float64)
    for t in (mixer.w_in, mixer.w_conv, mixer.a_log, mixer.dt_bias, mixer.norm):
        t.copy_(torch.randn(t.shape, generator=g))
    mixer.dt_bias += shift
    mixer.prepare()
    _, value_heads, dk, dv = shape
    whole = {"generator": g, "dtype": torch.float64}
    state = torch.randn(value_heads, dv, dk, **whole) / dk**0.5
    conv, u = torch.randn(19, sizes.conv_dim, **whole), torch.randn(16, 24, **whole)
    z, k, rate = (
        torch.zeros(16, value_heads, dv),
        torch.zeros(16, shape[0], dk),
        torch.zeros(16, value_heads),
    )
    buffers = GDNBuffers(state, conv, z.double(), k.double(), rate.double())
    raw = torch.randn(19, sum(mixer.widths), generator=g)
    raw[:3, : sizes.conv_dim] = conv[:3].float()
    raw[3:] = torch.cat(mixer._project(u), -1).float()
    gates = fused.Gates(
        *(t.float().to(device) for t in (mixer.conv_weight, mixer.rate, mixer.dt_bias, mixer.norm))
    )
    return Case(mixer, buffers, u, raw.to(device), gates, state.float().to(device))


def finished(made: Written, eps: float) -> torch.Tensor:
    """Gated outputs after their norm, as the output projection makes it."""
    scale = (made.squares.double().sum(-1) / made.gated.shape[-1] + eps).rsqrt()
    return (made.gated.double() * scale[..., None]).flatten(1).cpu()
