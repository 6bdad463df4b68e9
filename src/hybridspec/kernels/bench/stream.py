"""The streaming products and experts: checks against the law in float64, and timings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hybridspec.kernels.bench.checks import LENGTHS, compare, law_experts, same, stream
from hybridspec.kernels.bench.moe import CALLS, chosen, weights
from hybridspec.kernels.bench.products import left, many
from hybridspec.kernels.bench.setting import EPS, Setting
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear import naive as law
from hybridspec.kernels.linear.norm import Next, Normed
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed, choose
from hybridspec.kernels.stream import dense, experts
from hybridspec.kernels.stream.config import Launch


def check_stream(s: Setting) -> None:
    """Nothing where these kernels do not serve."""
    if dense.serves(s.weight(64, s.shape.hidden)):
        _check_dense(s)
        _check_ends(s)
        _check_experts(s)


def _check_dense(s: Setting) -> None:
    h = s.shape
    _, normed, after = stream(s)
    for n in (h.joint, h.experts + 1):
        w, wide = s.weight(n, h.hidden), n == h.experts + 1
        results = []
        for length in LENGTHS:
            y = s.empty(16, n, dtype=torch.float32 if wide else None).fill_(float("nan"))
            dense.norm_product(after.normed, EPS, w, y, s.scalar(length), launch=Launch(s.early))
            exact = F.linear(normed, w.double())[:length]
            compare(s, f"stream {n} rows, w = {length}", y[:length], exact)
            same(s, f"stream {n} rows, w = {length}: the rest untouched", y[length:].isnan(),
                 torch.ones_like(y[length:], dtype=torch.bool))  # fmt: skip
            results.append(y)
        same(s, f"stream {n} rows: a token among others", results[0][0], results[-1][0])


def _check_ends(s: Setting) -> None:
    """Both products that end a mixer."""
    h = s.shape
    _, _, after = stream(s)
    o, gate = (s.normal(16, h.value_heads, h.dv, dtype=torch.float32) for _ in range(2))
    factor = 1 + s.normal(h.dv, dtype=torch.float32, size=0.1)
    squares = o.square().view(16, h.value_heads, 4, -1).sum(-1)
    gated = (o * factor * F.silu(gate)).to(s.dtype).flatten(1)
    w, x = s.weight(h.hidden, h.value_heads * h.dv), s.normal(16, h.hidden)
    exact = {
        "gated": law.gated_product(
            o.double(), gate.double(), factor.double(), EPS, w.double(), x.double()
        ),
        "plain": law.product(gated.double(), w.double(), x.double()),
    }
    for name, expected in exact.items():
        results = []
        for length in LENGTHS:
            y = torch.full_like(x, float("nan"))
            follows = Next(after.factor, Normed.empty(h.hidden, s.dtype, s.device))
            rows = s.scalar(length)
            if name == "gated":
                dense.gated_product(
                    gated, squares, EPS, w, y, rows, x, follows, launch=Launch(s.early)
                )
            else:
                dense.product(gated, w, y, rows, x, follows, launch=Launch(s.early))
            compare(s, f"stream {name} end, w = {length}", y[:length], expected[:length])
            _check_left(s, f"stream {name} end, w = {length}", y, follows, length)
            results.append(y)
        same(s, f"stream {name} end: a token among others", results[0][0], results[-1][0])


def _check_left(s: Setting, name: str, y: Tensor, after: Next, length: int) -> None:
    """What is left for the next norm."""
    kept = y[:length].double()
    compare(s, f"{name}: scaled", after.normed.scaled[:length], kept * after.factor.double())
    squares = kept.square().view(length, -1, 16).sum(-1).t()
    compare(s, f"{name}: squares", after.normed.squares[:, :length], squares, 1e-6)  # fp32


def _check_experts(s: Setting) -> None:
    """With the router as it is; with each expert as likely as its neighbour, and with all equally
    likely, where ties go to the lower one."""
    w = weights(s)
    few, gate = w.router[:-1:2].repeat_interleave(2, 0)[: s.shape.experts], w.router[-1:]
    alike = w.router[:1].expand(s.shape.experts, -1)
    for name, router in (("", w.router), (", ties", torch.cat((few, gate))),
                         (", all alike", torch.cat((alike, gate)))):  # fmt: skip
        _check_routed(s, f"stream experts{name}", w._replace(router=router))


def _check_routed(s: Setting, name: str, w: Weights) -> None:
    h, space = s.shape, Workspace.empty(s.device)
    x, normed, after = stream(s)
    routed = Routed.empty(h.experts, h.top, s.device)
    results = []
    for length in LENGTHS:
        inner = torch.full((routed.places, 16, h.width), float("nan"), device=s.device).to(s.dtype)
        shared = torch.full((16, h.shared), float("nan"), device=s.device).to(s.dtype)
        y, rows = s.empty(16, h.hidden), s.scalar(length)
        follows = Next(after.factor, Normed.empty(h.hidden, s.dtype, s.device))
        dense.norm_product(after.normed, EPS, w.router, routed.logits, rows, launch=Launch(s.early))
        choose(rows, routed, space, early=s.early)  # for the law below alone
        experts.up(after.normed, EPS, w, rows, routed, inner, shared, launch=Launch(s.early))
        experts.down(inner, shared, w, rows, routed, x, y, follows, launch=Launch(s.early))
        ids = routed.ids[:length].long()
        logits = F.linear(normed, w.router.double())
        exact = x[:length].double() + law_experts(normed, w, logits, ids)
        compare(s, f"{name}, w = {length}", y[:length], exact)
        _check_left(s, f"{name}, w = {length}", y, follows, length)
        results.append(y)
    same(s, f"{name}: a token among others", results[0][0], results[-1][0])


def time_stream(s: Setting) -> None:
    """Products at w = 1 and 16, the experts at every U of the shape."""
    if not dense.serves(s.weight(64, s.shape.hidden)):
        return
    _time_dense(s)
    _time_experts(s)


def _time_dense(s: Setting) -> None:
    h, after = s.shape, left(s)
    x, attended = s.normal(16, h.hidden), s.normal(16, h.value_heads * h.dv)
    squares = s.normal(16, h.value_heads, 4, dtype=torch.float32).abs()
    named = {"joint": h.joint, "router": h.experts + 1, "head": h.vocabulary}
    for w in (1, 16):
        rows = s.scalar(w)
        for name, n in named.items():
            y = s.empty(16, n, dtype=None if name == "joint" else torch.float32)
            turns = many(s, n, h.hidden)
            for each in (1, 2):
                calls = [
                    lambda t=t, y=y, r=rows, e=each: dense.norm_product(
                        after.normed, EPS, t, y, r, launch=Launch(s.early, e)
                    )
                    for t in turns
                ]
                config = f"{each} a multiprocessor"
                s.timed(f"stream {name}, w = {w}", config, calls, turns[0].nbytes)
        turns = many(s, h.hidden, h.value_heads * h.dv)
        calls = [
            lambda t=t, r=rows: dense.gated_product(
                attended, squares, EPS, t, x, r, x, after, launch=Launch(s.early)
            )
            for t in turns
        ]
        s.timed(f"stream gated out, w = {w}", "", calls, turns[0].nbytes)
        calls = [
            lambda t=t, r=rows: dense.product(attended, t, x, r, x, after, launch=Launch(s.early))
            for t in turns
        ]
        s.timed(f"stream out, w = {w}", "", calls, turns[0].nbytes)


def logits_for(routed: Routed) -> Routed:
    """With logits that lead to the choice it holds."""
    logits = torch.full_like(routed.logits, -10.0)
    routed.logits.copy_(logits.scatter_(1, routed.ids.long(), 1.0))
    return routed


def _time_experts(s: Setting) -> None:
    h, w, after, space = s.shape, weights(s), left(s), Workspace.empty(s.device)
    x, scratch = s.normal(16, h.hidden), Routed.empty(h.experts, h.top, s.device)
    inner, shared = s.empty(scratch.places, 16, h.width), s.empty(16, h.shared)
    one, rest = w.gate_up[0].nbytes, w.shared_gate_up.nbytes
    for count in h.distinct:
        rows = s.scalar(1 if count == h.top else 16)
        lists = [logits_for(chosen(s, count)) for _ in range(CALLS)]

        def up(r: Routed, rows: Tensor = rows, each: int = 1) -> None:
            experts.up(after.normed, EPS, w, rows, r, inner, shared, launch=Launch(s.early, each))

        def down(r: Routed, rows: Tensor = rows) -> None:
            experts.down(inner, shared, w, rows, r, x, x, after, launch=Launch(s.early))

        def block(r: Routed, rows: Tensor = rows) -> None:
            dense.norm_product(
                after.normed, EPS, w.router, scratch.logits, rows, launch=Launch(s.early)
            )
            up(r)
            down(r)

        size = count * one + rest
        for each in (1, 2):
            calls = [lambda r=r, e=each: up(r, each=e) for r in lists]
            s.timed(f"stream up, U = {count}", f"{each} a multiprocessor", calls, size)
        s.timed(f"stream down, U = {count}", "", [lambda r=r: down(r) for r in lists], size / 2)
        whole = 1.5 * size + w.router.nbytes
        s.timed(f"stream block, U = {count}", "", [lambda r=r: block(r) for r in lists], whole)
    rows = s.scalar(16)
    calls = [lambda: choose(rows, scratch, space, **s.options)] * 20
    s.timed("choose", "", calls, scratch.logits.nbytes)
