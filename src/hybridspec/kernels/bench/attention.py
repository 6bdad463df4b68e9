"""Attention over a cache: checks in the dtype that is timed, timings at several contexts.

Calls in a row read different stretches of one long cache, so that none finds its keys and values in
the second-level cache; the capacity that the grid is made for is the same at every context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.attention import naive
from hybridspec.kernels.attention.config import PAST, AttentionConfig, Sight
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.attention.split import attend, room
from hybridspec.kernels.bench.checks import compare, same
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.last import Workspace
from hybridspec.model.layers import Rope

LENGTHS, CALLS = (1, 16), 64
SHORTER = ((0, 64), (512, 128), (2048, 256), (16384, 512), (32768, 2048))
VARIANTS = [
    AttentionConfig(64, 32, warps=4),
    AttentionConfig(64, 32, warps=8, stages=3),
    AttentionConfig(64, 64, warps=8),
    AttentionConfig(128, 32, warps=8),
    AttentionConfig(32, 64, warps=4),
    AttentionConfig(16, 64, warps=4),
    AttentionConfig(64, 32, warps=4, ladder=SHORTER),
]


@dataclass
class Layer:
    """One layer's constants, a round's projections and room; keys, values [KV, any, D]."""

    qkv: Tensor
    norms: Norms
    rope: Tables
    keys: Tensor
    values: Tensor
    q: Tensor
    out: Tensor
    position: Tensor
    length: Tensor
    rows: int
    gated: bool
    sight: Sight

    def cache(self, i: int, step: int) -> tuple[Tensor, Tensor]:
        """The i-th stretch of `rows` rows, `step` rows after the one before."""
        at = slice(i * step, i * step + self.rows)
        return self.keys[:, at], self.values[:, at]


def capacity(s: Setting) -> int:
    """Rows of a cache: enough for the longest context and a round."""
    return contexts(s)[-1] + 16


def contexts(s: Setting) -> tuple[int, ...]:
    """Positions before the round."""
    return (512, 4096, 8192, 32768) if s.device.type == "cuda" else (20, 70)


def target(s: Setting, spare: int = 0) -> Layer:
    """An attention layer of the target, its cache longer by spare rows."""
    h = s.shape
    return _layer(s, h.heads, h.kv_heads, h.head_dim, h.head_dim // 4, capacity(s), spare, PAST)


def drafter(s: Setting, sight: Sight, rows: int) -> Layer:
    """A layer of the 35B's drafter; a small one without a GPU."""
    if s.device.type == "cuda":
        return _layer(s, 32, 8, 128, 128, rows, 60_000, sight)
    return _layer(s, 4, 2, 16, 16, rows, 0, sight)


def _layer(
    s: Setting, heads: int, kv: int, size: int, rotated: int, rows: int, spare: int, sight: Sight
) -> Layer:
    gated = sight == PAST
    rope = Rope(1e7, rotated, capacity(s), s.device, torch.float32)
    q_factor, k_factor = 1 + s.normal(2, size, dtype=torch.float32, size=0.1)
    return Layer(
        s.normal(16, (heads * (2 if gated else 1) + 2 * kv) * size),
        Norms(q_factor, k_factor, EPS), Tables(rope.cos, rope.sin),
        s.normal(kv, rows + spare, size), s.normal(kv, rows + spare, size),
        s.empty(16, heads, size), s.empty(16, heads * size), s.scalar(0), s.scalar(1), rows, gated,
        sight,
    )  # fmt: skip


def space(s: Setting, a: Layer, c: AttentionConfig | None) -> Workspace:
    """Memory for the parts."""
    heads, size = a.q.shape[1:]
    return Workspace.empty(s.device, *room(heads, a.keys.shape[0], size, a.rows, c))


def serve(
    a: Layer, cache: tuple[Tensor, Tensor], parts: Workspace, c: AttentionConfig | None = None, *,
    first: bool = True, second: bool = True, early: bool = False,
) -> None:  # fmt: skip
    """The two launches, or one of them."""
    if first:
        prepare(a.qkv, a.norms, a.rope, *cache, a.position, a.length, a.q, gated=a.gated,
                ring=a.sight.ring, early=early)  # fmt: skip
    if second:
        attend(a.q, a.qkv if a.gated else None, *cache, a.position, a.length, a.out, parts, c,
               sight=a.sight, early=early)  # fmt: skip


def check_attention(s: Setting) -> None:
    """The target's layer and the drafter's; a row's bits at every length and in any round."""
    window = 4096 if s.device.type == "cuda" else 40
    _check(s, "target", target(s), (0, contexts(s)[0] - 5, contexts(s)[1]))
    ring = drafter(s, Sight(window=window, ring=True), window + 16)
    _check(s, "drafter's ring", ring, (30, contexts(s)[-1] - 20))
    full = drafter(s, Sight(causal=False), capacity(s))
    _check(s, "drafter", full, (30, contexts(s)[-1] - 20))
    _check_bits(s, target(s), contexts(s)[0] - 5)


def _check(s: Setting, name: str, a: Layer, positions: tuple[int, ...]) -> None:
    heads, size = a.q.shape[1:]
    cache, parts = a.cache(0, 0), space(s, a, None)
    for position in positions:
        for w in (1, 5, 16):
            a.position.fill_(position)
            a.length.fill_(w)
            serve(a, cache, parts)
            about = f"{name}, P = {position}, w = {w}"
            q, gate, k, _ = naive.split(a.qkv[:w].double(), heads, a.keys.shape[0], size,
                                        gated=a.gated)  # fmt: skip
            cos, sin = (t[position : position + w].double() for t in a.rope)
            at = naive.places(position, w, a.rows, a.sight).to(s.device)
            q, k = (
                naive.turned(x, f.double(), EPS, cos, sin)
                for x, f in zip((q, k), a.norms[:2], strict=True)
            )
            compare(s, f"{about}: q", a.q[:w], q)
            compare(s, f"{about}: k", cache[0][:, at], k.transpose(0, 1))
            seen = naive.visible(position, w, a.rows, a.sight).to(s.device)
            o = naive.attend(a.q[:w].double(), cache[0].double(), cache[1].double(), seen)
            o = o if gate is None else o * gate.sigmoid()
            compare(s, f"{about}: out", a.out[:w], o.flatten(1))


def _check_bits(s: Setting, a: Layer, position: int) -> None:
    cache, whole = a.cache(0, 0), a.qkv
    for c in (None, VARIANTS[0]) if s.device.type == "cuda" else (None,):
        parts = space(s, a, c)
        a.qkv = whole
        a.position.fill_(position)
        a.length.fill_(16)
        serve(a, cache, parts, c)
        at_once, found = a.out.clone(), []
        for start, w in ((0, 1), (1, 1), (2, 5), (7, 9)):
            a.qkv = torch.full_like(whole, float("nan"))
            a.qkv[:w] = whole[start : start + w]
            a.position.fill_(position + start)
            a.length.fill_(w)
            serve(a, cache, parts, c)
            found.append(a.out[:w].clone())
        same(s, f"attention in rounds, {c or 'default'}", torch.cat(found), at_once)


def time_attention(s: Setting) -> None:
    """Each launch and both, at every context, beside torch's own attention; the drafter's."""
    a = target(s, spare=110_000 if s.device.type == "cuda" else 0)
    for context in contexts(s):
        _time(s, "attention", a, context, (None, *s.cuts(VARIANTS)))
        for w in LENGTHS:
            _time_peer(s, a, context, w)
    full = drafter(s, Sight(causal=False), capacity(s))
    for context in contexts(s):
        _time(s, "drafter's attention", full, context - 20, (None,))


def time_windows(s: Setting) -> None:
    """A windowed layer of the drafter at the two longest contexts: it reads its window alone."""
    window = 4096 if s.device.type == "cuda" else 40
    ring = drafter(s, Sight(window=window, ring=True), window + 16)
    for context in contexts(s)[-2:]:
        _time(s, "windowed layer of the drafter", ring, context, (None,))


def _time(
    s: Setting, name: str, a: Layer, context: int, configs: tuple[AttentionConfig | None, ...]
) -> None:
    count, step, one = _stretches(s, a, context)
    a.position.fill_(context)
    for c in configs:
        parts = space(s, a, c)

        def calls(
            first: bool, second: bool, c: AttentionConfig | None = c, parts: Workspace = parts
        ) -> list[Callable[[], None]]:
            return [
                lambda i=i: serve(a, a.cache(i, step), parts, c, first=first, second=second,
                                  **s.options)
                for i in range(count)
            ]  # fmt: skip

        for w in LENGTHS:
            a.length.fill_(w)
            about = f"context {context}, w = {w}"
            if c is None:
                moved = a.qkv.nbytes * w / 8
                s.timed(f"{name}: prepare, {about}", "", calls(True, False), moved)
                s.timed(f"{name}: both, {about}", "", calls(True, True), one)
            s.timed(f"{name}: attend, {about}", c or "default", calls(False, True), one)


def _stretches(s: Setting, a: Layer, context: int) -> tuple[int, int, float]:
    """How many caches take turns, how far apart they begin, and the bytes that a call reads."""
    held = min(context + 16, a.rows)
    one = 2.0 * held * a.keys[:, 0].nbytes
    spare = a.keys.shape[1] - a.rows
    return min(CALLS, s.copies(one), 1 + spare // held), held, one


def _time_peer(s: Setting, a: Layer, context: int, w: int) -> None:
    """torch's fused operator on the same sizes, every query seeing every key."""
    count, step, one = _stretches(s, a, context)
    q = s.normal(1, a.q.shape[1], w, a.q.shape[2])

    def call(i: int) -> None:
        k, v = (t[None, :, : context + w] for t in a.cache(i, step))
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    calls = [lambda i=i: call(i) for i in range(count)]
    s.timed(f"attention: attend, context {context}, w = {w}, SDPA", "", calls, one)
