"""A whole pass of GDN layers as one graph: embedding to logits, then the commit.

One graph serves every length, which is data on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.bench.clock import GraphClock
from hybridspec.kernels.bench.gdn import Gates, Layers, commit_of, forms, gates, layers
from hybridspec.kernels.bench.moe import weights
from hybridspec.kernels.bench.products import left
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.gdn import fused
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.linear.norm import Next, embed
from hybridspec.kernels.linear.product import gated_product, norm_product
from hybridspec.kernels.moe.experts import down, up
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed, route

LENGTHS = (1, 2, 4, 8, 16)


@dataclass
class Layer:
    """A layer's weights; experts may be another layer's too."""

    w_in: Tensor
    w_out: Tensor
    gates: Gates
    experts: Weights


@dataclass
class Pass:
    """Everything that a pass reads and writes."""

    layers: list[Layer]
    gdn: Layers
    head: Tensor
    tokens: Tensor
    x: Tensor
    before_mixer: Next
    before_experts: Next
    routed: Routed
    h: Tensor
    shared_h: Tensor
    logits: Tensor
    length: Tensor
    space: Workspace


def build(s: Setting) -> Pass:
    """Random weights. Router rows are scaled by a log-normal of sigma 1, which makes tokens agree
    on experts about as much as real text does."""
    h = s.shape
    skew = s.normal(h.experts + 1, 1, dtype=torch.float32).exp()
    sets = [weights(s) for _ in range(h.stored)]
    sets = [w._replace(router=(w.router * skew).to(s.dtype)) for w in sets]
    made = [
        Layer(
            s.weight(h.joint, h.hidden), s.weight(h.hidden, h.value_heads * h.dv), gates(s),
            sets[i % len(sets)],
        )
        for i in range(h.layers)
    ]  # fmt: skip
    places = min(h.experts, ROWS * h.top)
    gdn = layers(s, h.layers)
    gdn.state.mul_(h.dk**-0.5)
    tokens = torch.randint(h.vocabulary, (16,), generator=s.generator, device=s.device)
    return Pass(
        made, gdn, s.weight(h.vocabulary, h.hidden), tokens, s.empty(16, h.hidden), left(s),
        left(s), Routed.empty(h.experts, h.top, s.device), s.empty(places, 16, h.width),
        s.empty(16, h.shared), s.empty(16, h.vocabulary), s.scalar(1), Workspace.empty(s.device),
    )  # fmt: skip


def run(s: Setting, p: Pass, counts: list[Tensor] | None = None) -> None:
    """The pass; `counts` takes every layer's U."""
    verify = next(iter(forms(s).values()))
    embed(p.tokens, p.head, p.x, p.before_mixer, **s.options)
    for i, layer in enumerate(p.layers):
        joint = p.gdn.raw[i, 3:]
        norm_product(p.before_mixer.normed, EPS, layer.w_in, joint, **s.options)
        p.gdn.gates = layer.gates
        verify(p.gdn, i, p.length)
        gated_product(
            p.gdn.gated.view(16, -1), p.gdn.squares, EPS, layer.w_out, p.x, p.x, p.before_experts,
            p.space, **s.options,
        )  # fmt: skip
        normed, w = p.before_experts.normed, layer.experts
        route(normed, EPS, w.router, p.length, p.routed, p.space, **s.options)
        if counts is not None:
            counts.append(p.routed.count.clone())
        up(normed, EPS, w, p.routed, p.h, p.shared_h, **s.options)
        down(p.h, p.shared_h, w, p.routed, p.x, p.x, p.space, p.before_mixer, **s.options)
    norm_product(p.before_mixer.normed, EPS, p.head, p.logits, **s.options)
    commit_of(s)(p.gdn, p.length)
    fused.advance(p.gdn.raw, s.shape.channels, p.length)


def nbytes(p: Pass, distinct: float) -> float:
    """Bytes of weights and states that a pass must move, with U distinct experts a layer."""
    first = p.layers[0]
    w = first.experts
    a_layer = first.w_in.nbytes + first.w_out.nbytes + w.router.nbytes + 3 * p.gdn.state[0].nbytes
    shared = w.shared_gate_up.nbytes + w.shared_down.nbytes
    expert = w.gate_up[0].nbytes + w.down[0].nbytes
    return p.head.nbytes + len(p.layers) * (a_layer + shared + distinct * expert)


def time_chain(s: Setting) -> None:
    """The pass at every length, with the mean U beside."""
    p = build(s)
    state = p.gdn.state.clone()
    run(s, p)
    graph = s.clock.capture([lambda: run(s, p)]) if isinstance(s.clock, GraphClock) else None
    for w in LENGTHS:
        p.length.fill_(w)
        p.gdn.state.copy_(state)
        counts: list[Tensor] = []
        run(s, p, counts)
        distinct = float(torch.stack(counts).float().mean())
        finite = bool(p.logits[:w].isfinite().all())
        us = s.clock.replays(graph) if graph is not None else s.clock([lambda: run(s, p)])
        size = nbytes(p, distinct)
        s.keep(
            {
                "name": f"chain of {s.shape.layers} layers, w = {w}",
                "us": round(us, 1),
                "distinct": round(distinct, 1),
                "bytes": int(size),
                "of_copy": round(size / us * 1e6 / s.copied, 3) if s.copied else None,
                "finite": finite,
            }
        )
