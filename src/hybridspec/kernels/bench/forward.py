"""The target's whole pass at a model's full shape, on random weights: embedding to logits, commit.

One graph serves every length, which is data on the device.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.bench.clock import GraphClock
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.model.config import TargetConfig
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetState

LENGTHS = (1, 2, 4, 6, 8, 12, 16)
CONTEXT, CAPACITY = 512, 1024
SKEW = 1.0  # sigma of the log-normal that router rows are scaled by: as real text, about


class CountingPass(TargetPass):
    """Keeps every layer's number of distinct experts."""

    counts: list[Tensor] | None = None

    def _route(self, i: int, length: Tensor) -> None:
        super()._route(i, length)
        if self.counts is not None:
            self.steps.show_choice(self.weights.layers[i].experts, length)
            self.counts.append(self.buffers.routed.count.clone())


def fill(s: Setting, target: Target, skew: float) -> None:
    """Random weights that keep a stream's size about as it is, and norms near 1."""
    for name, slot in target.slots().items():
        if slot.ndim >= 2:
            taps = name.endswith("conv1d.weight")
            slot.normal_(0.0, 0.5 if taps else slot.shape[-1] ** -0.5, generator=s.generator)
        else:
            slot.normal_(0.0, 0.1, generator=s.generator)
    for layer in target.layers:
        rows = layer.mlp.router
        scale = torch.empty(len(rows), 1, device=rows.device)
        rows.mul_(scale.normal_(0.0, skew, generator=s.generator).exp())
    target.prepare()


def build(s: Setting, config: TargetConfig) -> CountingPass:
    """A pass over a slot with CONTEXT tokens of random state."""
    target = Target(config, s.device, s.dtype)
    fill(s, target, SKEW)
    target.set_context(CAPACITY)
    state = TargetState(config, CAPACITY, device=s.device, dtype=s.dtype, joint=True)
    slot = state.slot()
    for part in (slot.checkpoint, slot.keys, slot.values, slot.conv):
        part.normal_(generator=s.generator)
    slot.checkpoint.mul_(config.linear_key_head_dim**-0.5)
    rows = slot.keys.shape[2]
    buffers = Buffers.empty(
        config, 0, blocks(config, s.device.type, s.dtype), rows, s.device, s.dtype
    )
    buffers.lengths.position.fill_(CONTEXT)
    tokens = torch.randint(config.vocab_size, (16,), generator=s.generator, device=s.device)
    buffers.tokens.copy_(tokens)
    return CountingPass(target, TargetWeights.of(target), slot, buffers, early=s.early)


def nbytes(p: TargetPass, distinct: float) -> float:
    """Bytes that a pass and its commit must move with U distinct experts a layer."""
    w = p.weights
    total = float(w.head.nbytes + 3 * p.slot.checkpoint.nbytes)
    total += 2 * p.slot.keys[:, :, :CONTEXT].nbytes
    for layer in w.layers:
        e = layer.experts
        shared = e.router.nbytes + e.shared_gate_up.nbytes + e.shared_down.nbytes
        total += layer.w_in.nbytes + layer.w_out.nbytes + shared
        total += distinct * (e.gate_up[0].nbytes + e.down[0].nbytes)
    return total


def time_forward(s: Setting) -> None:
    """The pass with its commit at every length, with the mean U beside."""
    p = build(s, s.shape.target())
    lengths, state = p.buffers.lengths, p.slot.checkpoint.clone()

    def whole() -> None:
        p.unsplit()
        p.commit()

    whole()
    graph = s.clock.capture([whole]) if isinstance(s.clock, GraphClock) else None
    for w in LENGTHS if graph is not None else LENGTHS[1:2]:
        lengths.verified.fill_(w)
        lengths.kept.fill_(w)
        p.slot.checkpoint.copy_(state)
        p.counts = []
        p.unsplit()
        distinct = float(torch.stack(p.counts).float().mean())
        p.counts = None
        finite = bool(p.buffers.logits[:w].isfinite().all())
        us = s.clock.replays(graph) if graph is not None else s.clock([whole])
        size = nbytes(p, distinct)
        s.keep(
            {
                "name": f"target pass, w = {w}",
                "us": round(us, 1),
                "distinct": round(distinct, 1),
                "bytes": int(size),
                "floor_us": round(size / 4.28e6, 1),
                "of_copy": round(size / us * 1e6 / s.copied, 3) if s.copied else None,
                "finite": finite,
                "ok": finite,
            }
        )
