"""Prefill at the shape of a model: one layer of each kind, their parts, and the whole by addition.

Calls are timed as they run in an engine, one by one on a stream and not as a graph: a prompt's
length is the host's. Beside them plain torch with fewer tokens, for it is slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.bench.prefill_checks import SMALL
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.gdn import chunked, ends
from hybridspec.kernels.gdn.config import ChunkConfig
from hybridspec.kernels.moe import grouped, tiles
from hybridspec.kernels.moe.config import TileConfig
from hybridspec.model.attention import attend, attend_last, causal
from hybridspec.model.layers import Rope
from hybridspec.model.target import Layer, Step
from hybridspec.runtime.state import TargetState

LONG, PLAIN = 8192, 1024  # tokens: ours and plain torch's
WANTED = 400  # milliseconds for LONG tokens and all layers
RUNS = 5
T = TypeVar("T")


@dataclass
class Model:
    """A layer of each kind with memory for two passes, and how many the model has."""

    gdn: Layer
    attention: Layer
    step: Step
    tokens: int
    counts: tuple[int, int]


def model(s: Setting) -> Model:
    """Random weights."""
    whole, tokens = s.shape.target(), LONG if s.device.type == "cuda" else SMALL
    config = replace(whole, layer_types=("linear_attention", "full_attention"))
    layers = [Layer(config, i, s.device, s.dtype) for i in range(2)]
    for layer in layers:
        for weight in layer.slots().values():
            weight.normal_(0.0, weight.shape[-1] ** -0.5, generator=s.generator)
        layer.prepare()
    state = TargetState(config, 2 * tokens, device=s.device, dtype=s.dtype)
    rope = Rope(config.rope_theta, config.rotary_dim, 2 * tokens, s.device, s.dtype)
    counts = (len(whole.linear_layers), len(whole.full_layers))
    return Model(*layers, Step(state.slot(), rope, None), tokens, counts)


def clocked(
    s: Setting, name: str, call: Callable[[], object], flops: float = 0.0, config: object = ""
) -> float:
    """Milliseconds of a call, the median of RUNS after one that compiles; keeps a record."""
    if s.device.type != "cuda":
        began = time.perf_counter()
        call()
        ms = (time.perf_counter() - began) * 1e3
    else:
        call()
        samples = []
        for _ in range(RUNS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            samples.append(start.elapsed_time(end))
        ms = statistics.median(samples)
    record = {"name": f"prefill {name}", "config": str(config), "us": round(1e3 * ms, 1)}
    s.keep(record | ({"tflops": round(flops / ms / 1e9, 1)} if flops else {}))
    return ms


def time_prefill(s: Setting) -> None:
    """Whole layers, their sum, plain torch, and what the layers are made of."""
    m = model(s)
    x = s.normal(m.tokens, s.shape.hidden)
    gdn, attention, experts = _layers(s, m, x, "")
    linear, full = m.counts
    whole = {
        "gdn": linear * gdn, "attention": full * attention, "experts": (linear + full) * experts
    }  # fmt: skip
    record = {"name": "prefill whole, by addition", "us": round(1e3 * sum(whole.values()), 1)}
    s.keep(record | {f"{k}_ms": round(ms, 2) for k, ms in whole.items()} | {"wanted_ms": WANTED})
    _time_gdn_parts(s, m, x)
    _time_expert_parts(s, m, x)
    _time_attention_parts(s, m)
    if s.device.type == "cuda":
        torch.cuda.synchronize()
        s.keep({"name": "prefill memory", "gb": torch.cuda.max_memory_allocated() / 1e9})
        m.gdn.gdn.chunked = m.gdn.mlp.sorts = False  # type: ignore[union-attr]
        _layers(s, m, x[:PLAIN], f", plain torch at {PLAIN}")


def _layers(s: Setting, m: Model, x: Tensor, name: str) -> tuple[float, float, float]:
    """A GDN mixer, one of attention and the experts, with norms and projections."""
    h, n = s.shape, len(x)
    size = h.heads * h.head_dim
    projections = 2.0 * n * h.hidden * (h.joint + h.value_heads * h.dv)
    gdn = clocked(s, f"gdn layer{name}", lambda: m.gdn.mix(x, m.step), projections)
    flops = 2.0 * n * h.hidden * (3 * size + 2 * h.kv_heads * h.head_dim) + 2.0 * n * n * size
    attention = clocked(s, f"attention layer{name}", lambda: m.attention.mix(x, m.step), flops)
    flops = 6.0 * n * h.hidden * (h.top * h.width + h.shared)
    experts = clocked(s, f"experts{name}", lambda: m.gdn.experts(m.gdn.route(x)), flops)
    return gdn, attention, experts


CUTS = (
    ChunkConfig(32, 64),
    ChunkConfig(16, 64),
    ChunkConfig(32, 64, scan_stages=2),
    ChunkConfig(64, 64),
    ChunkConfig(32, 128),
    ChunkConfig(32, 64, "tf32"),
)


def _time_gdn_parts(s: Setting, m: Model, x: Tensor) -> None:
    mixer, h = m.gdn.gdn, s.shape
    assert mixer is not None
    buffers = m.step.slot.layer(0)
    columns = clocked_result(s, "gdn input projection", lambda: F.linear(x, mixer.w_in))
    qkv, z, b, a = columns.split(mixer.widths, -1)
    heads = ends.Heads(h.key_heads, h.value_heads, h.dk, h.dv)
    q, k, v = clocked_result(
        s, "gdn convolution",
        lambda: ends.convolve(qkv, buffers.conv[:3], mixer.conv_weight, heads, EPS),
    )  # fmt: skip
    beta, g = clocked_result(s, "gdn gates", lambda: mixer._gates(b, a))
    state = buffers.state.clone()
    for c in s.cuts(CUTS) or (ChunkConfig.choose(h.dk, h.dv, s.dtype),):
        call = partial(chunked.prefill, q, k, v, beta, g, state, c)
        clocked(s, "gdn chunks", call, config=c)
    o = chunked.prefill(q, k, v, beta, g, state)
    clocked(s, "gdn norm and gate", lambda: ends.finish(o, z, mixer.norm, EPS))
    clocked(s, "residual norm", lambda: m.gdn.mixer_norm(x))


def clocked_result(s: Setting, name: str, call: Callable[[], T]) -> T:
    """Time a call and run it once more for what it gives."""
    clocked(s, name, call)
    return call()


TILES = (TileConfig(128, 128, 64, 8), TileConfig(64, 128, 64))


def _time_expert_parts(s: Setting, m: Model, x: Tensor) -> None:
    mlp = m.gdn.mlp
    routed = m.gdn.route(x)
    sort = clocked_result(s, "experts sort", lambda: grouped.order(routed.experts, s.shape.experts))
    rows = len(sort.token)
    flops = 6.0 * rows * s.shape.hidden * s.shape.width
    if grouped.uses_library(mlp.gate_up):
        u = clocked_result(s, "experts gather", lambda: routed.moe_input[sort.token])
        up = clocked_result(
            s, "experts up, torch", lambda: grouped.library_product(u, mlp.gate_up, sort.ends)
        )
        h = clocked_result(s, "experts silu", lambda: grouped.activate(up))
        clocked(s, "experts down, torch", lambda: grouped.library_product(h, mlp.down, sort.ends))
    y = s.empty(rows, s.shape.hidden)
    clocked(s, "experts sum", lambda: grouped.add_up(y, sort.place, routed.weights, x))
    choice = TileConfig.choose(rows, s.shape.experts, x.element_size())
    for c in TILES if s.device.type == "cuda" else (choice,):

        def both(c: TileConfig = c) -> Tensor:
            cut = tiles.cut(sort.ends, rows, c)
            h = tiles.gate_up(routed.moe_input, sort.token, mlp.gate_up, cut)
            return tiles.product(h, mlp.down, cut)

        clocked(s, "experts up and down, Triton", both, flops, c)


def _time_attention_parts(s: Setting, m: Model) -> None:
    h, n = s.shape, m.tokens
    q = s.normal(n, h.heads, h.head_dim)
    keys, values = m.step.slot.keys[0], m.step.slot.values[0]
    for before in (0, n):
        end = before + n
        flops = 4.0 * n * (before + n / 2) * h.heads * h.head_dim
        clocked(
            s, f"attention behind {before} tokens",
            lambda end=end: attend_last(q, keys[:, :end], values[:, :end]), flops,
        )  # fmt: skip
    few = min(PLAIN, n)
    mask, part = causal(few, s.device), (q[:few], keys[:, :few], values[:, :few])
    clocked(s, f"attention with a mask, plain torch at {few}", lambda: attend(*part, mask))
