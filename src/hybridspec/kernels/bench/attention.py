"""Attention over a cache: checks in the dtype that is timed, timings at several contexts.

Calls in a row read different stretches of one long cache, so that none finds its keys and values in
the second-level cache; the capacity that the grid is made for is the same at every context.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.attention import naive, split_cuda
from hybridspec.kernels.attention.combine import combine
from hybridspec.kernels.attention.config import PAST, AttentionConfig, CombineConfig, Sight
from hybridspec.kernels.attention.forms import Form, attention
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.attention.split import attend
from hybridspec.kernels.bench.checks import compare, same
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.last import Workspace
from hybridspec.model.layers import Rope

LENGTHS, MORE, CALLS = (1, 16), (1, 6, 16), 64
HALF = ((0, 32), (1024, 64), (4096, 128), (8192, 256), (32768, 1024))
FINE = ((0, 64), (8192, 128), (16384, 256), (32768, 1024))
VARIANTS = [  # of `attend` before `combine`
    AttentionConfig(16, 32),
    AttentionConfig(16, 32, stages=3),
    AttentionConfig(16, 64, warps=8),
    AttentionConfig(16, 64, ladder=FINE),
    AttentionConfig(16, 32, ladder=HALF),
    AttentionConfig(32, 32),
    AttentionConfig(64, 32),
]
Cache = tuple[Tensor, Tensor]  # of keys and values
COMBINES = [
    CombineConfig(32, 16),
    CombineConfig(32, 32),
    CombineConfig(64, 16),
    CombineConfig(128, 16),
    CombineConfig(256, 16, warps=8),
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

    def cache(self, i: int, step: int) -> Cache:
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


def forms(s: Setting, a: Layer) -> list[Form]:
    """Those that there are for such a layer on this device."""
    heads, size = a.q.shape[1:]
    best = Form.of_target(heads, a.keys.shape[0], size, s.dtype, s.device)
    return [form for form in Form if form is not Form.WARPGROUPS or (form is best and a.gated)]


def space(s: Setting, a: Layer, c: AttentionConfig | None, form: Form = Form.JOINED) -> Workspace:
    """Memory for the parts."""
    heads, size = a.q.shape[1:]
    needed = form.room(heads, a.keys.shape[0], size, a.rows, s.device, c)
    return Workspace.empty(s.device, *needed)


def serve(
    a: Layer, cache: Cache, parts: Workspace, c: AttentionConfig | None = None,
    form: Form = Form.JOINED, own: CombineConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """The launches of a form."""
    attention(a.qkv, a.norms, a.rope, *cache, a.position, a.length, a.q, a.out, parts, c, own,
              gated=a.gated, sight=a.sight, form=form, early=early)  # fmt: skip


def begin(a: Layer, position: int, w: int) -> None:
    """A round's lengths, and no result yet: a kernel between them and one launched early."""
    a.position.fill_(position)
    a.length.fill_(w)
    a.out.fill_(torch.nan)


def served(
    s: Setting, a: Layer, caches: list[Cache], parts: Workspace, c: AttentionConfig | None = None,
    form: Form = Form.JOINED, own: CombineConfig | None = None,
) -> list[Callable[[], None]]:  # fmt: skip
    """Calls in a row, each over another cache."""
    return [partial(serve, a, cache, parts, c, form, own, **s.options) for cache in caches]


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
    cache = a.cache(0, 0)
    for position in positions:
        for w in (1, 5, 16):
            begin(a, position, w)
            serve(a, cache, space(s, a, None), **s.options)
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
            rows = [t[:, at].clone() for t in cache]
            for form in forms(s, a)[1:]:
                for t in cache:
                    t[:, at] = torch.nan
                begin(a, position, w)
                serve(a, cache, space(s, a, None, form), form=form, **s.options)
                compare(s, f"{about}, {form.value}: out", a.out[:w], o.flatten(1))
                for t, known in zip(cache, rows, strict=True):
                    compare(s, f"{about}, {form.value}: cache", t[:, at], known.double())


def _check_bits(s: Setting, a: Layer, position: int) -> None:
    cuts: list[tuple[Form, AttentionConfig | None]] = [(form, None) for form in forms(s, a)]
    if s.device.type == "cuda":
        cuts += [(Form.APART, c) for c in VARIANTS]
    cache, whole = a.cache(0, 0), a.qkv
    for form, c in cuts:
        parts = space(s, a, c, form)
        a.qkv = whole
        begin(a, position, 16)
        serve(a, cache, parts, c, form, **s.options)
        at_once, found = a.out.clone(), []
        for start, w in ((0, 1), (1, 1), (2, 5), (7, 9)):
            a.qkv = torch.full_like(whole, float("nan"))
            a.qkv[:w] = whole[start : start + w]
            begin(a, position + start, w)
            serve(a, cache, parts, c, form, **s.options)
            found.append(a.out[:w].clone())
        about = f"attention in rounds, {form.value}, {c or 'default'}"
        same(s, about, torch.cat(found), at_once)


def time_attention(s: Setting) -> None:
    """Each launch and both, at every context, beside torch's own attention; the other forms; the
    drafter's."""
    a = target(s, spare=110_000 if s.device.type == "cuda" else 0)
    for context in contexts(s):
        _time(s, "attention", a, context)
        for w in LENGTHS:
            _time_peer(s, a, context, w)
        _time_forms(s, a, context)
    full = drafter(s, Sight(causal=False), capacity(s))
    for context in contexts(s):
        _time(s, "drafter's attention", full, context - 20)


def time_windows(s: Setting) -> None:
    """A windowed layer of the drafter at the two longest contexts: it reads its window alone."""
    window = 4096 if s.device.type == "cuda" else 40
    ring = drafter(s, Sight(window=window, ring=True), window + 16)
    for context in contexts(s)[-2:]:
        _time(s, "windowed layer of the drafter", ring, context)


def _time(s: Setting, name: str, a: Layer, context: int) -> None:
    """The first form, whole and launch by launch."""
    caches, one = _caches(s, a, context)
    parts, gate, lengths = space(s, a, None), a.qkv if a.gated else None, (a.position, a.length)
    a.position.fill_(context)
    for w in LENGTHS:
        a.length.fill_(w)
        about = f"context {context}, w = {w}"
        prepares = [
            partial(prepare, a.qkv, a.norms, a.rope, *cache, *lengths, a.q, gated=a.gated,
                    ring=a.sight.ring, **s.options)
            for cache in caches
        ]  # fmt: skip
        s.timed(f"{name}: prepare, {about}", "", prepares, a.qkv.nbytes * w / 8)
        s.timed(f"{name}: both, {about}", "", served(s, a, caches, parts), one)
        attends = [
            partial(attend, a.q, gate, *cache, *lengths, a.out, parts, sight=a.sight, **s.options)
            for cache in caches
        ]
        s.timed(f"{name}: attend, {about}", "default", attends, one)


def _time_forms(s: Setting, a: Layer, context: int) -> None:
    """Each form whole; the adding alone; cuts of it and of `attend`, whole again."""
    caches, one = _caches(s, a, context)
    a.position.fill_(context)
    for w in MORE:
        a.length.fill_(w)
        about = f"context {context}, w = {w}"
        for form in forms(s, a):
            _time_form(s, a, caches, about, one, form)
        _time_adding(s, a, caches, about, one)
        for c in s.cuts(VARIANTS):
            _time_form(s, a, caches, about, one, Form.APART, c)
        for own in s.cuts(COMBINES):
            _time_form(s, a, caches, about, one, Form.APART, own=own)


def _time_form(
    s: Setting, a: Layer, caches: list[Cache], about: str, one: float, form: Form,
    c: AttentionConfig | None = None, own: CombineConfig | None = None,
) -> None:  # fmt: skip
    calls = served(s, a, caches, space(s, a, c, form), c, form, own)
    s.timed(f"attention: {form.value}, {about}", c or own or "default", calls, one)


def _time_adding(s: Setting, a: Layer, caches: list[Cache], about: str, one: float) -> None:
    """The adding alone; by warpgroups also what comes before it."""
    parts, lengths = space(s, a, None), (a.position, a.length)
    adds: list[Callable[[], None]] = [
        partial(combine, a.qkv, keys, *lengths, a.out, parts, **s.options) for keys, _ in caches
    ]
    s.timed(f"attention: combine, {about}", "", adds, one)
    if Form.WARPGROUPS not in forms(s, a):
        return
    parts, kv = space(s, a, None, Form.WARPGROUPS), a.keys.shape[0]
    attends = [
        partial(split_cuda.attend, a.q, *cache, *lengths, parts, **s.options) for cache in caches
    ]
    s.timed(f"attention: attend by warpgroups, {about}", "", attends, one)
    adds = [partial(split_cuda.combine, a.qkv, kv, *lengths, a.out, parts, **s.options)]
    s.timed(f"attention: combine by warpgroups, {about}", "", adds * len(caches), one)


def _caches(s: Setting, a: Layer, context: int) -> tuple[list[Cache], float]:
    """Stretches of the cache that calls in a row take, and the bytes that a call reads."""
    held = min(context + 16, a.rows)
    one = 2.0 * held * a.keys[:, 0].nbytes
    spare = a.keys.shape[1] - a.rows
    count = min(CALLS, s.copies(one), 1 + spare // held)
    return [a.cache(i, held) for i in range(count)], one


def _time_peer(s: Setting, a: Layer, context: int, w: int) -> None:
    """torch's fused operator on the same sizes, every query seeing every key."""
    caches, one = _caches(s, a, context)
    q = s.normal(1, a.q.shape[1], w, a.q.shape[2])

    def call(cache: Cache) -> None:
        k, v = (t[None, :, : context + w] for t in cache)
        F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    calls = [partial(call, cache) for cache in caches]
    s.timed(f"attention: attend, context {context}, w = {w}, SDPA", "", calls, one)
