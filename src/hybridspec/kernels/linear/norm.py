"""The residual stream on its way into a root-mean-square norm.

A norm inside a product sends the input's tile through registers, which breaks the pipeline of
loads: the product then takes two to three times as long. So whoever produces the stream leaves it
multiplied by the next norm's factor, with sums of its squares; the product takes that as it is and
multiplies its own sums by the scale at the end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import GROUP, ROWS

COLS = 64  # of one program of `prepare`


class Normed(NamedTuple):
    """scaled [16, N]: the stream times the factor, in the weights' dtype. squares [ceil(N / 16),
    16] fp32: for 16 columns each, every row's sum of squares of the stream as it is stored."""

    scaled: Tensor
    squares: Tensor

    @classmethod
    def empty(cls, n: int, dtype: torch.dtype, device: torch.device | str) -> Normed:
        """Memory for a stream of n columns."""
        return cls(
            torch.empty(ROWS, n, dtype=dtype, device=device),
            torch.empty(triton.cdiv(n, GROUP), ROWS, device=device),
        )


class Next(NamedTuple):
    """The norm after a product: its factor [N] fp32 (1 + the weight) and what it takes, written."""

    factor: Tensor
    normed: Normed

    def pointers(self) -> tuple[Tensor, Tensor, Tensor]:
        """The kernels' arguments factor, scaled, squares."""
        return (self.factor, *self.normed)


@triton.jit
def hand_on(y, factor, scaled, squares, tile, N, ROWS: tl.constexpr, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Leave the columns y [ROWS, COLS] of a tile, fp32 values as stored, for the next norm."""
    row, col = tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
    within = (col < N)[None, :]
    f = tl.load(factor + col, mask=col < N, other=0.0)
    to = scaled + row[:, None] * N + col[None, :]
    tl.store(to, (y * f[None, :]).to(scaled.dtype.element_ty), mask=within)
    grouped = tl.reshape(tl.where(within, y * y, 0.0), (ROWS, COLS // 16, 16))
    group = tile * (COLS // 16) + tl.arange(0, COLS // 16)
    to = squares + group[None, :] * ROWS + row[:, None]
    tl.store(to, tl.sum(grouped, 2), mask=(group * 16 < N)[None, :])


@triton.jit
def load_squares(squares, N, GROUPS: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sums of squares [GROUPS, ROWS], 0 beyond those of N columns. Loaded before a loop and used
    after it, they cost no wait."""
    group, row = tl.arange(0, GROUPS), tl.arange(0, ROWS)
    at = squares + group[:, None] * ROWS + row[None, :]
    return tl.load(at, mask=(group * 16 < N)[:, None], other=0.0)


@triton.jit
def scale_of(sums, N, eps):  # type: ignore[no-untyped-def]
    """The norm's scale of every row."""
    return tl.rsqrt(tl.sum(sums, 0) / N + eps)


@triton.jit
def _prepare(  # type: ignore[no-untyped-def]
    source, tokens, x, factor, scaled, squares, N,
    GATHER: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, col = tl.arange(0, ROWS), tl.program_id(0) * COLS + tl.arange(0, COLS)
    within = (col < N)[None, :]
    at = row[:, None] * N + col[None, :]
    if GATHER:
        token = tl.load(tokens + row).to(tl.int64)
        y = tl.load(source + token[:, None] * N + col[None, :], mask=within, other=0.0)
        tl.store(x + at, y, mask=within)
    else:
        y = tl.load(source + at, mask=within, other=0.0)
    hand_on(y.to(tl.float32), factor, scaled, squares, tl.program_id(0), N, ROWS, COLS)


def prepare(x: Tensor, after: Next, *, early: bool = False) -> None:
    """Leave x [16, N] for the norm `after` it. `early` as in `kernels/early.py`."""
    _launch(x, None, x, after, early)


def embed(
    tokens: Tensor, embedding: Tensor, x: Tensor, after: Next, *, early: bool = False
) -> None:
    """x = rows of the embedding, left for the norm `after` it.

    Args:
        tokens: [16] int32 or int64; all of them rows of the embedding, those beyond the length too.
        embedding: [V, N]. x: [16, N] of its dtype, written.
        early: as in `kernels/early.py`.
    """
    _launch(embedding, tokens, x, after, early)


def _launch(source: Tensor, tokens: Tensor | None, x: Tensor, after: Next, early: bool) -> None:
    n = x.shape[1]
    _prepare[(triton.cdiv(n, COLS),)](
        source, tokens, x, *after.pointers(), n, tokens is not None, ROWS, COLS, early,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
