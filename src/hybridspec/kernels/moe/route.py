"""Router, top-k and the list of distinct experts in one Triton kernel.

Every program computes a part of the logits; the last to arrive adds the parts and chooses.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import Workspace, is_last
from hybridspec.kernels.linear.config import ROWS, ProductConfig
from hybridspec.kernels.linear.norm import Normed, load_squares, scale_of
from hybridspec.kernels.linear.product import walk
from hybridspec.kernels.moe import config as cuts


class Routed(NamedTuple):
    """The experts of a pass, on the device, for U distinct ones among at most 16 k.

    logits [16, E + 1] fp32 of every row; the last column is the shared expert's gate.
    ids [16, k] int32: of each token, likeliest first. distinct [16 k + 1] int32: ascending, in the
    first U places; the place beyond the last is there to be read. before [E + 1] int32: how many
    distinct experts have a lower id; the last is U. weights [16 k, 16] fp32: of the expert in each
    place for each token; 0 where it was not chosen, and for tokens beyond the length. opening [16]
    fp32: the shared expert's weight, 0 beyond the length.
    """

    logits: Tensor
    ids: Tensor
    distinct: Tensor
    before: Tensor
    weights: Tensor
    opening: Tensor

    @classmethod
    def empty(cls, experts: int, k: int, device: torch.device | str) -> Routed:
        """Memory for a model with so many experts, k a token."""
        most = min(experts, ROWS * k)
        whole = {"dtype": torch.int32, "device": device}
        return cls(
            torch.empty(ROWS, experts + 1, device=device), torch.empty(ROWS, k, **whole),
            torch.zeros(most + 1, **whole), torch.empty(experts + 1, **whole),
            torch.empty(most, ROWS, device=device), torch.empty(ROWS, device=device),
        )  # fmt: skip

    @property
    def count(self) -> Tensor:
        """U, a [] view."""
        return self.before[-1]


@triton.jit
def _rank(x, expert, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """An int64 that orders by x, then by the lower expert: the bits of a float, made monotone, and
    the id counted from the end. One reduction then finds both."""
    bits = (x + 0.0).to(tl.int32, bitcast=True)  # -0 becomes 0
    bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (bits.to(tl.int64) << 32) | (COUNT - 1 - expert).to(tl.int64)


@triton.jit
def _value(rank):  # type: ignore[no-untyped-def]
    """The x of a rank."""
    bits = (rank >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _choose(  # type: ignore[no-untyped-def]
    parts, sums, eps, length, logits, ids, distinct, before, weights, opening, E, K,
    TOP: tl.constexpr, SPLIT: tl.constexpr, WIDE: tl.constexpr, HALVES: tl.constexpr,
    LANES: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """From parts [SPLIT, ROWS, WIDE] to everything in `Routed`. Tiles are [HALVES, ROWS, LANES]: a
    row lies in one warp, so that a reduction over it needs no barrier."""
    COUNT: tl.constexpr = HALVES * LANES
    row, expert = tl.arange(0, ROWS), tl.arange(0, COUNT)
    wide = tl.reshape(expert, (HALVES, 1, LANES))
    at = row[None, :, None] * WIDE + wide
    known = tl.broadcast_to(wide < E, (HALVES, ROWS, LANES))
    scale = scale_of(sums, K, eps)
    x, gate = tl.zeros((HALVES, ROWS, LANES), tl.float32), tl.zeros((ROWS,), tl.float32)
    for i in tl.static_range(SPLIT):
        part = parts + i * (ROWS * WIDE)
        x += tl.load(part + at, mask=known, other=0.0, cache_modifier=".cg")
        gate += tl.load(part + row * WIDE + E, cache_modifier=".cg")
    x, gate = x * scale[None, :, None], gate * scale
    real = row < tl.load(length)
    tl.store(logits + row[None, :, None] * (E + 1) + wide, x, mask=known)
    tl.store(logits + row * (E + 1) + E, gate)
    tl.store(opening + row, tl.where(real, 1.0 / (1.0 + tl.exp(-gate)), 0.0))

    x = tl.where(known, x, -float("inf"))
    left = _rank(x, wide, COUNT)
    top, total = tl.zeros((ROWS,), tl.float32), tl.zeros((ROWS,), tl.float32)
    for i in tl.static_range(TOP):
        best = tl.max(tl.max(left, 0), 1)
        first = COUNT - 1 - best.to(tl.int32)  # the low half
        if i == 0:
            top = _value(best)
        total += tl.exp(_value(best) - top)
        tl.store(ids + row * TOP + i, first)
        left = tl.where(wide == first[None, :, None], -0x7FFFFFFFFFFFFFFF, left)
    chosen = (left == -0x7FFFFFFFFFFFFFFF) & real[None, :, None]
    share = tl.where(chosen, tl.exp(x - top[None, :, None]) / total[None, :, None], 0.0)

    used = tl.reshape(tl.max(chosen.to(tl.int32), 1), (COUNT,))
    place = tl.cumsum(used, 0) - used
    tl.store(before + expert, place, mask=expert < E)
    tl.store(before + E, tl.sum(used, 0))
    tl.store(distinct + place, expert, mask=used > 0)
    place, listed = tl.reshape(place, (HALVES, 1, LANES)), tl.reshape(used, (HALVES, 1, LANES))
    tl.store(weights + place * ROWS + row[None, :, None], share, mask=listed > 0)


@triton.jit
def _route(  # type: ignore[no-untyped-def]
    x, squares, eps, router, parts, arrived, length, logits, ids, distinct, before, weights,
    opening, E, K,
    TOP: tl.constexpr, TILES: tl.constexpr, SPLIT: tl.constexpr, SUMS: tl.constexpr,
    HALVES: tl.constexpr, LANES: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
    DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    tile, part = tl.program_id(0), tl.program_id(1)
    WIDE: tl.constexpr = TILES * COLS
    mine = tl.cdiv(tl.cdiv(K, DEPTH), SPLIT) * DEPTH
    start = part * mine
    acc = walk(x, router, tile, start, tl.minimum(start + mine, K), E + 1, K, ROWS, COLS, DEPTH)
    row, col = part * ROWS + tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
    at = row[:, None] * WIDE + col[None, :]
    tl.store(parts + at, acc)
    if is_last(arrived, TILES * SPLIT):
        sums = load_squares(squares, K, SUMS, ROWS)
        _choose(parts, sums, eps, length, logits, ids, distinct, before, weights, opening, E, K,
                TOP, SPLIT, WIDE, HALVES, LANES, ROWS)  # fmt: skip


def route(
    x: Normed, eps: float, router: Tensor, length: Tensor, routed: Routed, workspace: Workspace,
    config: ProductConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """Choose experts and list the distinct ones of the first `length` tokens.

    Args:
        x: the residual stream [16, K], left for this block's norm.
        router: [E + 1, K] as in `naive.Weights`.
        length: [] int32 on the device.
        routed: written.
        early: as in `kernels/early.py`.
    """
    rows, k = router.shape
    experts, top = rows - 1, routed.ids.shape[1]
    c = config or cuts.router(experts, k)
    tiles, lanes = triton.cdiv(rows, c.cols), min(128, triton.next_power_of_2(experts))
    workspace.check(c.split * ROWS * tiles * c.cols, 1)
    _route[(tiles, c.split)](
        *x, eps, router, *workspace, length, *routed, experts, k, top, tiles, c.split,
        triton.next_power_of_2(x.squares.shape[0]), triton.next_power_of_2(experts) // lanes, lanes,
        ROWS, c.cols, c.depth, early, num_warps=c.warps, num_stages=c.stages,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
