"""A loaded drafter's weights in the form that the kernels read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.attention.prepare import Norms
from hybridspec.model.drafter import Drafter, DrafterLayer


@dataclass(frozen=True, slots=True)
class DraftLayer:
    """One layer, which shares the model's memory. Norm factors are fp32; gate_up is gate above
    up."""

    before_mixer: Tensor
    before_mlp: Tensor
    w_in: Tensor
    w_out: Tensor
    gate_up: Tensor
    down: Tensor
    qk: Norms

    @classmethod
    def of(cls, layer: DrafterLayer) -> DraftLayer:
        """From a layer that is loaded."""
        qk = Norms(layer.q_norm, layer.k_norm, layer.config.rms_norm_eps)
        weights = (layer.w_in, layer.w_out, layer.gate_up, layer.down)
        return cls(*layer.norms, *(w.contiguous() for w in weights), qk)


@dataclass(frozen=True, slots=True)
class ContextWeights:
    """From features to the context's keys and values.

    fc [K, taps K] and the norm's factor after it. w [L 2 KV D, K]: k of all sliding layers, then v
    of them, then the same of the full ones: a copy, so that one product makes all of them. ring,
    whole: norms of those layers' k, [layers, D].
    """

    fc: Tensor
    norm: Tensor
    w: Tensor
    ring: Norms
    whole: Norms

    @classmethod
    def of(cls, drafter: Drafter) -> ContextWeights:
        """From a drafter that is loaded."""
        groups = (drafter.ringed, drafter.whole)
        rows = [part for layers in groups for part in _rows(drafter, layers)]
        norms = [drafter.k_norms[layers] for layers in groups]
        ring, whole = (Norms(k, k, drafter.config.rms_norm_eps) for k in norms)
        w = torch.cat(rows).contiguous()
        return cls(drafter.fc.contiguous(), drafter.hidden_norm, w, ring, whole)


@dataclass(frozen=True, slots=True)
class DrafterWeights:
    """A drafter: the target's embedding and head [V, K], the last norm's factor [K] fp32."""

    embedding: Tensor
    head: Tensor
    norm: Tensor
    context: ContextWeights
    layers: tuple[DraftLayer, ...]

    @classmethod
    def of(cls, drafter: Drafter, embedding: Tensor, head: Tensor) -> DrafterWeights:
        """From a drafter that is loaded and the target's two tables."""
        layers = tuple(map(DraftLayer.of, drafter.layers))
        tables = embedding.contiguous(), head.contiguous()
        return cls(*tables, drafter.norm, ContextWeights.of(drafter), layers)


def _rows(drafter: Drafter, layers: list[int]) -> list[Tensor]:
    """Rows of the joint projections that make k of these layers, then v."""
    c = drafter.config
    first, width = c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim
    starts = (first, first + width)
    return [drafter.w_in[i, start : start + width] for start in starts for i in layers]
