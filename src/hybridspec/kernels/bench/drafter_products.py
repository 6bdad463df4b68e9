"""Timings of a drafter's products, in the cuts worth trying."""

from __future__ import annotations

from functools import partial

from hybridspec.kernels.bench.products import left, many
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ProductConfig
from hybridspec.kernels.linear.product import product
from hybridspec.kernels.linear.up import up_product
from hybridspec.kernels.stream import dense
from hybridspec.kernels.stream.config import Launch

FC = [
    ProductConfig(32, 128, split=4),
    ProductConfig(64, 128, split=8),
    ProductConfig(32, 256, split=8, stages=3),
]
UP = [ProductConfig(32, 128), ProductConfig(64, 128, stages=3)]
DOWN = [
    ProductConfig(32, 128, split=4),
    ProductConfig(32, 128, split=8),
    ProductConfig(64, 128, split=8),
]


def time_fc(s: Setting, k: int) -> None:
    """From features [16, k] to the stream."""
    x, y, after, space = s.normal(16, k), s.empty(16, s.shape.hidden), left(s), _space(s)
    weights = many(s, s.shape.hidden, k)
    for c in (ProductConfig.choose(s.shape.hidden, k), *s.cuts(FC)):
        calls = [partial(product, x, w, y, None, after, space, c, **s.options) for w in weights]
        s.timed("drafter's fc", c, calls, weights[0].nbytes)
    if dense.serves(weights[0]):
        for each in (1, 2):
            launch = Launch(s.early, each)
            one = partial(dense.product, launch=launch)
            calls = [partial(one, x, w, y, s.scalar(16), y, after) for w in weights]
            s.timed("drafter's fc", launch, calls, weights[0].nbytes)


def time_mlp(s: Setting, both: int, k: int) -> None:
    """Gate and up [both, k], and back, by Triton in every cut and streaming where that serves."""
    after, space, rows = left(s), _space(s), s.scalar(16)
    ups, downs = many(s, both, k), many(s, k, both // 2)
    x, h = s.normal(16, k), s.normal(16, both // 2)
    for c in s.cuts(UP) or UP[:1]:
        calls = [partial(up_product, after.normed, EPS, w, h, c, **s.options) for w in ups]
        s.timed("drafter's up", c, calls, ups[0].nbytes)
    for c in s.cuts(DOWN) or DOWN[:1]:
        calls = [partial(product, h, w, x, x, after, space, c, **s.options) for w in downs]
        s.timed("drafter's down", c, calls, downs[0].nbytes)
    for each in (1, 2):
        launch = Launch(s.early, each)
        if dense.serves(ups[0]):
            up = partial(dense.up_product, launch=launch)
            calls = [partial(up, after.normed, EPS, w, h, rows) for w in ups]
            s.timed("drafter's up", launch, calls, ups[0].nbytes)
        if dense.serves(downs[0]):
            down = partial(dense.product, launch=launch)
            calls = [partial(down, h, w, x, rows, x, after) for w in downs]
            s.timed("drafter's down", launch, calls, downs[0].nbytes)


def time_joint(s: Setting, heights: dict[str, int]) -> None:
    """Joint projection of a layer, and the context's keys and values of all layers."""
    after, rows, launch = left(s), s.scalar(16), Launch(s.early)
    for name, n in heights.items():
        weights, y = many(s, n, s.shape.hidden), s.empty(16, n)
        if dense.serves(weights[0]):
            one = partial(dense.norm_product, launch=launch)
            calls = [partial(one, after.normed, EPS, w, y, rows) for w in weights]
            s.timed(f"drafter's {name}", launch, calls, weights[0].nbytes)


def _space(s: Setting) -> Workspace:
    """Room for any cut above."""
    return Workspace.empty(s.device)
