"""The products of a pass as a pass runs them, and cuBLAS at the same number of rows."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from hybridspec.kernels.bench.products import left, many
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.forward.products import Products
from hybridspec.kernels.last import Workspace

LENGTHS = (1, 2, 4, 8, 16)


def time_products(s: Setting) -> None:
    """Every product that follows a norm, and the one that ends a mixer."""
    h = s.shape
    wide = {"router": h.experts + 1, "head": h.vocabulary}
    normed = {
        "joint": h.joint, "joint of attention": 2 * (h.heads + h.kv_heads) * h.head_dim,
        "33.6 MB": 4 * h.hidden,
    } | wide  # fmt: skip
    after, space = left(s), Workspace.empty(s.device)
    products = Products(after.normed, space, EPS, early=s.early)
    for name, n in normed.items():
        launched = name if name in wide else "joint"
        weights = many(s, n, h.hidden)
        y = s.empty(16, n, dtype=torch.float32 if name in wide else None)
        for w in LENGTHS:
            rows = s.scalar(w)
            calls = [partial(products.normed, launched, t, y, rows) for t in weights]
            s.timed(f"product {name}, w = {w}", "", calls, weights[0].nbytes)
            _time_cublas(s, name, after.normed.scaled[:w], weights)
    x, inner = s.normal(16, h.hidden), s.normal(16, h.value_heads * h.dv)
    weights = many(s, h.hidden, inner.shape[1])
    for w in LENGTHS:
        rows = s.scalar(w)
        calls = [partial(products.added, "out", inner, t, x, x, after, rows) for t in weights]
        s.timed(f"product out, w = {w}", "", calls, weights[0].nbytes)
        _time_cublas(s, "out", inner[:w], weights)


def _time_cublas(s: Setting, name: str, x: Tensor, weights: list[Tensor]) -> None:
    """The product alone: no norm before it and nothing after."""
    y = s.empty(len(x), len(weights[0]))
    calls = [lambda t=t: torch.mm(x, t.t(), out=y) for t in weights]
    s.timed(f"product {name}, w = {len(x)}, cuBLAS", "", calls, weights[0].nbytes)
