"""Timings of the expert kernels at a given number U of distinct experts."""

from __future__ import annotations

import torch

from hybridspec.kernels.bench.products import left
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.moe.config import ExpertConfig
from hybridspec.kernels.moe.experts import down, up
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed, route

CALLS = 8  # in a row, each with other experts
UP = [ExpertConfig(32, 128), ExpertConfig(64, 64)]
DOWN = [
    ExpertConfig(64, 128, groups=8),
    ExpertConfig(32, 128, groups=8),
    ExpertConfig(64, 128, groups=16),
    ExpertConfig(32, 256, stages=3, groups=4),
]


def weights(s: Setting) -> Weights:
    """One layer's."""
    e, k, i, n = s.shape.experts, s.shape.hidden, s.shape.width, s.shape.shared
    return Weights(
        s.weight(e + 1, k), s.weight(e, 2 * i, k), s.weight(e, k, i), s.weight(2 * n, k),
        s.weight(k, n),
    )  # fmt: skip


def chosen(s: Setting, count: int) -> Routed:
    """Routing to so many distinct experts, drawn at random."""
    routed = Routed.empty(s.shape.experts, s.shape.top, s.device)
    ids = torch.randperm(s.shape.experts, generator=s.generator, device=s.device)[:count].sort()[0]
    used = torch.zeros(s.shape.experts + 1, dtype=torch.int32, device=s.device)
    used[ids] = 1
    routed.distinct[:count] = ids.int()
    routed.before.copy_((used.cumsum(0) - used).int())
    turn = torch.arange(ROWS * s.shape.top, device=s.device) % count
    routed.ids.copy_(ids[turn].view(ROWS, -1).int())
    routed.shares.fill_(0.1)
    routed.opening.fill_(0.5)
    return routed


def time_experts(s: Setting) -> None:
    """up and down by themselves, then the block: router, up, down, each at its default."""
    shape, w, after, space = s.shape, weights(s), left(s), Workspace.empty(s.device)
    x, scratch = s.normal(16, shape.hidden), Routed.empty(shape.experts, shape.top, s.device)
    h, shared_h = s.empty(scratch.places, 16, shape.width), s.empty(16, shape.shared)
    length = s.scalar(16)
    rest = w.shared_gate_up.nbytes
    for count in shape.distinct:
        lists = [chosen(s, count) for _ in range(CALLS)]
        one = w.gate_up[0].nbytes
        for c in s.cuts(UP) or UP[:1]:
            calls = [
                lambda r=r, c=c: up(after.normed, EPS, w, r, h, shared_h, c, **s.options)
                for r in lists
            ]
            s.timed(f"up, U = {count}", c, calls, count * one + rest)
        for c in s.cuts(DOWN) or DOWN[:1]:
            calls = [
                lambda r=r, c=c: down(h, shared_h, w, r, x, x, space, after, c, **s.options)
                for r in lists
            ]
            s.timed(f"down, U = {count}", c, calls, (count * one + rest) / 2)

        def block(r: Routed) -> None:
            route(after.normed, EPS, w.router, length, scratch, space, **s.options)
            up(after.normed, EPS, w, r, h, shared_h, **s.options)
            down(h, shared_h, w, r, x, x, space, after, **s.options)

        whole = 1.5 * (count * one + rest) + w.router.nbytes
        s.timed(f"block, U = {count}", "default", [lambda r=r: block(r) for r in lists], whole)
