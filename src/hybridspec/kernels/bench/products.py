"""Timings of the products, cuBLAS beside, and of the router with its top-k."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.gdn import fused
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ProductConfig
from hybridspec.kernels.linear.norm import Next, Normed, embed, prepare
from hybridspec.kernels.linear.product import gated_product, norm_product, product
from hybridspec.kernels.moe.route import Routed, route

JOINT = [ProductConfig(64, 128), ProductConfig(32, 128), ProductConfig(64, 64, stages=6)]
OUT = [
    ProductConfig(32, 128, split=4),
    ProductConfig(64, 128, split=8),
    ProductConfig(32, 128, split=8),
    ProductConfig(16, 128, split=2),
]
ROUTER = [ProductConfig(16, 256, split=n) for n in (2, 4, 8)]


def left(s: Setting, n: int | None = None) -> Next:
    """A norm and a stream that was left for it."""
    n = n or s.shape.hidden
    after = Next(1 + s.normal(n, dtype=torch.float32, size=0.1), Normed.empty(n, s.dtype, s.device))
    prepare(s.normal(16, n), after)
    return after


def time_norms(s: Setting) -> None:
    """The small kernels: a stream left for its norm, and the rows of an embedding."""
    n, after = s.shape.hidden, left(s)
    x, table = s.normal(16, n), s.normal(s.shape.vocabulary, n)
    tokens = torch.arange(16, device=s.device)
    nbytes = 4 * 16 * n
    s.timed("prepare", "", [lambda: prepare(x, after, **s.options)] * 20, nbytes)
    s.timed("embed", "", [lambda: embed(tokens, table, x, after, **s.options)] * 20, nbytes)


def time_joint(s: Setting) -> None:
    """The joint projection of a GDN layer, after a norm."""
    _time_normed(s, "joint", s.shape.joint, JOINT)


def time_head(s: Setting) -> None:
    """The logits."""
    _time_normed(s, "head", s.shape.vocabulary, JOINT[:1])


def time_out(s: Setting) -> None:
    """The output projections of a GDN layer (gated heads) and of an attention layer."""
    shape, x, after, space = (
        s.shape,
        s.normal(16, s.shape.hidden),
        left(s),
        Workspace.empty(s.device),
    )
    k = shape.value_heads * shape.dv
    weights = many(s, shape.hidden, k)
    gated = s.normal(16, k)
    squares = s.normal(16, shape.value_heads, fused.blocks(shape.dv), dtype=torch.float32).abs()
    for c in s.cuts(OUT) or OUT[:1]:
        calls = [
            lambda w=w, c=c: gated_product(
                gated, squares, EPS, w, x, x, after, space, c, **s.options
            )
            for w in weights
        ]
        s.timed("gated out", c, calls, weights[0].nbytes)
    calls = [lambda w=w: product(gated, w, x, x, after, space, **s.options) for w in weights]
    s.timed("out", "default", calls, weights[0].nbytes)
    _time_cublas(s, "out", gated, weights)


def time_router(s: Setting) -> None:
    """Router, top-k and list in one kernel; cuBLAS makes the logits alone."""
    shape, after, space = s.shape, left(s), Workspace.empty(s.device)
    routed, length = Routed.empty(shape.experts, shape.top, s.device), s.scalar(16)
    weights = many(s, shape.experts + 1, shape.hidden)
    for c in s.cuts(ROUTER) or ROUTER[1:2]:
        calls = [
            lambda w=w, c=c: route(after.normed, EPS, w, length, routed, space, c, **s.options)
            for w in weights
        ]
        s.timed("router and top-k", c, calls, weights[0].nbytes)
    _time_cublas(s, "router", after.normed.scaled, weights)


def _time_normed(s: Setting, name: str, n: int, configs: list[ProductConfig]) -> None:
    after, y = left(s), s.empty(16, n)
    weights = many(s, n, s.shape.hidden)
    for c in s.cuts(configs) or configs[:1]:
        calls = [
            lambda w=w, c=c: norm_product(after.normed, EPS, w, y, None, c, **s.options)
            for w in weights
        ]
        s.timed(name, c, calls, weights[0].nbytes)
    _time_cublas(s, name, after.normed.scaled, weights)


def _time_cublas(s: Setting, name: str, x: Tensor, weights: list[Tensor]) -> None:
    y = s.empty(16, weights[0].shape[0])
    calls = [lambda w=w: torch.mm(x, w.t(), out=y) for w in weights]
    s.timed(f"{name}, cuBLAS", "", calls, weights[0].nbytes)


def many(s: Setting, n: int, k: int) -> list[Tensor]:
    """Weights [n, k], as many as take turns."""
    return [s.weight(n, k) for _ in range(s.copies(2 * n * k))]
