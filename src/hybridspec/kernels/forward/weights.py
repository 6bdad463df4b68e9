"""A loaded target's weights in the form that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.attention.prepare import Norms
from hybridspec.kernels.gdn.fused import Gates
from hybridspec.kernels.moe.naive import Weights
from hybridspec.model.attention import GatedAttention
from hybridspec.model.gdn import GDNMixer
from hybridspec.model.moe import MoE
from hybridspec.model.target import Layer, Target


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Norm factors are fp32, 1 + the weight; the rest shares the model's memory but for
    the router, which takes the shared expert's gate as its last row.

    gates: of a GDN layer; qk: of an attention layer.
    """

    before_mixer: Tensor
    before_experts: Tensor
    w_in: Tensor
    w_out: Tensor
    experts: Weights
    gates: Gates | None
    qk: Norms | None

    @classmethod
    def of(cls, layer: Layer) -> LayerWeights:
        """From a layer that is loaded and prepared."""
        mixer = layer.gdn or layer.attention
        assert mixer is not None
        return cls(
            1 + layer.norms[0], 1 + layer.norms[1], mixer.w_in.contiguous(),
            mixer.w_out.contiguous(), experts_of(layer.mlp),
            None if layer.gdn is None else gates_of(layer.gdn),
            None if layer.attention is None else qk_of(layer.attention),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TargetWeights:
    """A target: embedding and head [V, K], the last norm's factor [K] fp32, and the layers."""

    embedding: Tensor
    head: Tensor
    norm: Tensor
    layers: tuple[LayerWeights, ...]

    @classmethod
    def of(cls, target: Target) -> TargetWeights:
        """From a target that is loaded and prepared."""
        head = target.head.contiguous()
        tied = target.embedding is target.head
        embedding = head if tied else target.embedding.contiguous()
        return cls(embedding, head, 1 + target.norm, tuple(map(LayerWeights.of, target.layers)))


def experts_of(mlp: MoE) -> Weights:
    """The experts' weights."""
    gate_up, opening = mlp.shared_in[:-1], mlp.shared_in[-1:]
    return Weights(
        torch.cat((mlp.router, opening)), mlp.gate_up.contiguous(), mlp.down.contiguous(),
        gate_up.contiguous(), mlp.shared_down.contiguous(),
    )  # fmt: skip


def gates_of(gdn: GDNMixer) -> Gates:
    """The small weights of a GDN layer."""
    return Gates(gdn.conv_weight, gdn.rate, gdn.dt_bias.contiguous(), gdn.norm)


def qk_of(attention: GatedAttention) -> Norms:
    """The norms of q and k."""
    return Norms(*(1 + attention.norm), attention.config.rms_norm_eps)
