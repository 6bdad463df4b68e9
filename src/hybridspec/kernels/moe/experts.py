"""A mixture-of-experts block for at most 16 tokens as three Triton kernels: route, up, down.

Time follows the number of distinct experts: every one of them sees all 16 rows, with weight 0 where
a token did not choose it, and is read once. Sums run over experts in ascending order.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.moe.config import ExpertConfig
from hybridspec.kernels.moe.naive import Weights


class Routed(NamedTuple):
    """The experts of a pass, on the device, for U distinct ones among at most 16 k.

    ids [16, k] int32: of each token, likeliest first. distinct [16 k] int32: ascending, in the
    first `count` [] int32 places. weights [16 k, 16] fp32: of the expert in each place for each
    token; 0 where it was not chosen, and for tokens beyond the length.
    """

    ids: Tensor
    distinct: Tensor
    count: Tensor
    weights: Tensor

    @classmethod
    def empty(cls, experts: int, k: int, device: torch.device | str) -> Routed:
        """Memory for a model with so many experts, k a token."""
        most = min(experts, ROWS * k)
        whole = {"dtype": torch.int32, "device": device}
        return cls(
            torch.empty(ROWS, k, **whole), torch.empty(most, **whole), torch.empty((), **whole),
            torch.empty(most, ROWS, device=device),
        )  # fmt: skip


@triton.jit
def _route(  # type: ignore[no-untyped-def]
    logits, length, ids, distinct, count, weights, E, TOP: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, expert = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = row[:, None] * E + expert[None, :]
    x = tl.load(logits + at, mask=(expert < E)[None, :], other=-float("inf")).to(tl.float32)
    p = tl.exp(x - tl.max(x, 1)[:, None])
    p = p / tl.sum(p, 1)[:, None]
    left, chosen, total = p, tl.zeros((ROWS, COLS), tl.int1), tl.zeros((ROWS,), tl.float32)
    for i in tl.static_range(TOP):
        best = tl.max(left, 1)
        first = tl.min(tl.where(left == best[:, None], expert[None, :], COLS), 1)
        tl.store(ids + row * TOP + i, first)
        mine = expert[None, :] == first[:, None]
        chosen, total = chosen | mine, total + best
        left = tl.where(mine, -1.0, left)
    chosen = chosen & (row < tl.load(length))[:, None]
    share = tl.where(chosen, p / total[:, None], 0.0)
    used = tl.max(chosen.to(tl.int32), 0)
    place = tl.cumsum(used, 0) - 1
    tl.store(count, tl.sum(used, 0))
    tl.store(distinct + place, expert, mask=used > 0)
    tl.store(weights + place[None, :] * ROWS + row[:, None], share, mask=(used > 0)[None, :])


@triton.jit
def _up(  # type: ignore[no-untyped-def]
    x, factor, eps, gate_up, shared_gate_up, shared_gate, distinct, count, weights, h, shared_h,
    K, WIDTH, SHARED,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    place = tl.program_id(1) - 1  # -1 is the shared expert
    shared = place < 0
    if place >= tl.load(count):
        return
    width = tl.where(shared, SHARED, WIDTH)
    if tl.program_id(0) * COLS >= width:
        return
    base = shared_gate_up
    if not shared:
        base = gate_up + tl.load(distinct + place).to(tl.int64) * 2 * WIDTH * K
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    within = (col < width)[:, None]
    g, u = tl.zeros((ROWS, COLS), tl.float32), tl.zeros((ROWS, COLS), tl.float32)
    squares, opening = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for start in range(0, K, DEPTH):
        at = start + inner
        known = at < K
        mask = within & known[None, :]
        w_gate = tl.load(base + col[:, None] * K + at[None, :], mask=mask, other=0.0)
        w_up = tl.load(base + (width + col)[:, None] * K + at[None, :], mask=mask, other=0.0)
        a = tl.load(x + row[:, None] * K + at[None, :], mask=known[None, :], other=0.0)
        a = a.to(tl.float32)
        squares += tl.sum(a * a, 1)
        a = (a * tl.load(factor + at, mask=known, other=0.0)[None, :]).to(w_gate.dtype)
        gate = tl.load(shared_gate + at, mask=known & shared, other=0.0)
        opening += tl.sum(a.to(tl.float32) * gate.to(tl.float32)[None, :], 1)
        g = tl.dot(a, tl.trans(w_gate), g, input_precision="ieee")
        u = tl.dot(a, tl.trans(w_up), u, input_precision="ieee")
    scale = tl.rsqrt(squares / K + eps)
    g, u = g * scale[:, None], u * scale[:, None]
    share = 1.0 / (1.0 + tl.exp(-opening * scale))
    target = shared_h
    if not shared:
        share = tl.load(weights + place * ROWS + row)
        target = h + place.to(tl.int64) * ROWS * WIDTH
    y = g / (1.0 + tl.exp(-g)) * u * share[:, None]
    y = tl.where((share == 0.0)[:, None], 0.0, y)  # a row that means nothing may hold a NaN
    at = row[:, None] * width + col[None, :]
    tl.store(target + at, y.to(h.dtype.element_ty), mask=(col < width)[None, :])


@triton.jit
def _down(  # type: ignore[no-untyped-def]
    h, shared_h, down, shared_down, distinct, count, x, y, K, WIDTH, SHARED,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, inner = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    within = col < K
    acc = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, SHARED, DEPTH):
        at = start + inner
        known = at < SHARED
        w = tl.load(
            shared_down + col[:, None] * SHARED + at[None, :],
            mask=within[:, None] & known[None, :], other=0.0,
        )  # fmt: skip
        a = tl.load(shared_h + row[:, None] * SHARED + at[None, :], mask=known[None, :], other=0.0)
        acc = tl.dot(a, tl.trans(w), acc, input_precision="ieee")
    steps = tl.cdiv(WIDTH, DEPTH)
    for step in range(tl.load(count) * steps):  # one loop over all experts: loads never run dry
        place = step // steps
        at = (step % steps) * DEPTH + inner
        known = at < WIDTH
        base = down + tl.load(distinct + place).to(tl.int64) * K * WIDTH
        mask = within[:, None] & known[None, :]
        w = tl.load(base + col[:, None] * WIDTH + at[None, :], mask=mask, other=0.0)
        part = h + place.to(tl.int64) * ROWS * WIDTH
        a = tl.load(part + row[:, None] * WIDTH + at[None, :], mask=known[None, :], other=0.0)
        acc = tl.dot(a, tl.trans(w), acc, input_precision="ieee")
    at = row[:, None] * K + col[None, :]
    acc += tl.load(x + at, mask=within[None, :], other=0.0).to(tl.float32)
    tl.store(y + at, acc.to(y.dtype.element_ty), mask=within[None, :])


def route(logits: Tensor, length: Tensor, routed: Routed, *, early: bool = False) -> None:
    """Choose experts and list the distinct ones of the first `length` tokens.

    Args:
        logits: [16, E] fp32 of the router.
        length: [] int32 on the device.
        routed: written.
        early: as in `kernels/early.py`.
    """
    experts, top = logits.shape[1], routed.ids.shape[1]
    cols = triton.next_power_of_2(experts)
    _route[(1,)](
        logits, length, *routed, experts, top, ROWS, cols, early, num_warps=8, **options(early)
    )


def up(
    x: Tensor, w: Weights, eps: float, routed: Routed, h: Tensor, shared_h: Tensor,
    config: ExpertConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """silu(gate) * up of the norm of x, times each token's weight, of every distinct expert.

    Args:
        x: [16, K], the residual stream. w: contiguous, one dtype but for the fp32 factor.
        h: [places, 16, I] and shared_h: [16, S] of w's dtype, written.
    """
    k, i, s = x.shape[1], w.down.shape[2], w.shared_down.shape[1]
    c = config or ExpertConfig.up(max(i, s), k)
    places = routed.distinct.shape[0]
    _up[(triton.cdiv(max(i, s), c.cols), 1 + places)](
        x, w.factor, eps, w.gate_up, w.shared_gate_up, w.shared_gate, routed.distinct,
        routed.count, routed.weights, h, shared_h, k, i, s, ROWS, c.cols, c.depth, early,
        num_warps=c.warps, num_stages=c.stages, enable_fp_fusion=False, **options(early),
    )  # fmt: skip


def down(
    h: Tensor, shared_h: Tensor, w: Weights, routed: Routed, x: Tensor, y: Tensor,
    config: ExpertConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """y = x + the shared expert's and all distinct experts' second products, in ascending order.

    Arguments as in `up`; y [16, K] may be x itself.
    """
    k, i, s = x.shape[1], w.down.shape[2], w.shared_down.shape[1]
    c = config or ExpertConfig.down(k, i)
    _down[(triton.cdiv(k, c.cols),)](
        h, shared_h, w.down, w.shared_down, routed.distinct, routed.count, x, y, k, i, s,
        ROWS, c.cols, c.depth, early, num_warps=c.warps, num_stages=c.stages,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
