"""Grouped products as Triton kernels: rows in groups, each group by its own weights.

A list on the device says which group a tile of rows belongs to; a group's last tile is partly
empty. The grid is as large as the list can get, and programs beyond its end leave at once.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.moe.config import TileConfig


class Cut(NamedTuple):
    """M rows cut into tiles: group [tiles] int32 (E beyond the last), ends [E] int32 the row behind
    each group, last [E] int32 the tiles of all groups up to and with this one. config: how."""

    group: Tensor
    ends: Tensor
    last: Tensor
    config: TileConfig


def cut(ends: Tensor, rows: int, config: TileConfig) -> Cut:
    """Tiles of `rows` rows whose groups stop at `ends` [E]; no host is asked."""
    counts = ends.diff(prepend=ends.new_zeros(1))
    last = ((counts + config.rows - 1) // config.rows).cumsum(0, dtype=torch.int32)
    most = triton.cdiv(rows, config.rows) + min(len(ends), rows)
    every = torch.arange(most, dtype=torch.int32, device=ends.device)
    group = torch.searchsorted(last, every, right=True, out_int32=True)
    return Cut(group, ends, last, config)


@triton.jit
def _span(group, ends, last, tile, e, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """First row of a tile of group e, and the row behind the group."""
    there = e > 0
    begin = tl.load(ends + e - 1, mask=there, other=0)
    before = tl.load(last + e - 1, mask=there, other=0)
    return begin + (tile - before) * ROWS, tl.load(ends + e)


@triton.jit
def _grouped(  # type: ignore[no-untyped-def]
    x, source, w, y, group, ends, last, E, N, K,
    PAIRED: tl.constexpr, PRECISION: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """y = x w^T of a tile. PAIRED: rows of x are those that `source` names, w has N rows of gate
    and N of up, and y is silu(gate) up."""
    tile = tl.program_id(1)
    e = tl.load(group + tile)
    if e >= E:
        return
    start, stop = _span(group, ends, last, tile, e, ROWS)
    row = start + tl.arange(0, ROWS)
    there = row < stop
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    within = col < N
    inner = tl.arange(0, DEPTH)
    rows = row.to(tl.int64)
    if PAIRED:
        rows = tl.load(source + row, mask=there, other=0)
    base = w + e.to(tl.int64) * (2 * N if PAIRED else N) * K
    acc = tl.zeros((ROWS, COLS), tl.float32)
    up = tl.zeros((ROWS, COLS), tl.float32)
    for begin in range(0, K, DEPTH):
        at = begin + inner
        known = at < K
        mask = within[None, :] & known[:, None]
        a = tl.load(
            x + rows[:, None] * K + at[None, :], mask=there[:, None] & known[None, :], other=0.0
        )
        b = tl.load(base + col[None, :] * K + at[:, None], mask=mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
        if PAIRED:
            b = tl.load(base + (N + col)[None, :] * K + at[:, None], mask=mask, other=0.0)
            up = tl.dot(a, b, up, input_precision=PRECISION)
    if PAIRED:
        acc = acc / (1.0 + tl.exp(-acc)) * up
    at = row.to(tl.int64)[:, None] * N + col[None, :]
    tl.store(y + at, acc.to(y.dtype.element_ty), mask=there[:, None] & within[None, :])


def gate_up(x: Tensor, source: Tensor, w: Tensor, cut: Cut) -> Tensor:
    """silu(gate) up of rows `source` [M] of x [T, K], by w [E, 2 I, K] -> [M, I]."""
    return _launch(x, source, w, x.new_empty(len(source), w.shape[1] // 2), cut, paired=True)


def product(x: Tensor, w: Tensor, cut: Cut) -> Tensor:
    """x [M, K] by w [E, N, K] -> [M, N]."""
    return _launch(x, None, w, x.new_empty(len(x), w.shape[1]), cut, paired=False)


def _launch(
    x: Tensor, source: Tensor | None, w: Tensor, y: Tensor, cut: Cut, *, paired: bool
) -> Tensor:
    n, k, c = y.shape[1], x.shape[1], cut.config
    half = x.dtype != torch.float32
    cols = c.cols // 2 if paired else c.cols
    _grouped[(triton.cdiv(n, cols), len(cut.group))](
        x, source, w, y, *cut[:3], len(cut.ends), n, k, paired, "ieee" if half else "tf32x3",
        c.rows, cols, c.depth, num_warps=c.warps, num_stages=c.stages, enable_fp_fusion=False,
    )  # fmt: skip
    return y
