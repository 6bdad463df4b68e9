"""Final norm, head and likeliest token of at most 16 rows; for a drafter also how sure it is.

Programs walk their columns of the head as a product does, and leave for every row the largest
logit with its token and, where asked, two sums of exponentials. One program a row then joins them,
in their order. A row's token and scores depend on no other row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.head.config import HeadConfig
from hybridspec.kernels.head.rank import is_finite, rank, token_of, value_of
from hybridspec.kernels.last import is_last
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.linear.norm import Normed, load_squares, scale_of
from hybridspec.kernels.linear.product import walk


class Tiles(NamedTuple):
    """What programs leave for the end: best [16, tiles] int64, ranks of each tile's largest logit;
    sums [2, 16, tiles] fp32, of exp(d) and of d exp(d) for d = x - the tile's largest; arrived [1]
    int32, zero between kernels. One serves all heads of a stream."""

    best: Tensor
    sums: Tensor
    arrived: Tensor

    @classmethod
    def empty(
        cls, vocabulary: int, k: int, device: torch.device | str, config: HeadConfig | None = None
    ) -> Tiles:
        """Memory for a head [vocabulary, k] under a config."""
        c = config or HeadConfig.choose(vocabulary, k)
        tiles = triton.cdiv(vocabulary, c.cols)
        return cls(
            torch.empty(ROWS, tiles, dtype=torch.int64, device=device),
            torch.empty(2, ROWS, tiles, device=device),
            torch.zeros(1, dtype=torch.int32, device=device),
        )


class Answer(NamedTuple):
    """tokens [16] int64: of the largest logit, the lowest of equals. top [16] fp32: that logit.
    confidence, entropy [16] fp32: the token's probability, and nats; written where scored. Of rows
    beyond the length at hand all four mean nothing."""

    tokens: Tensor
    top: Tensor
    confidence: Tensor
    entropy: Tensor

    @classmethod
    def empty(cls, device: torch.device | str) -> Answer:
        """Memory for it."""
        tokens = torch.zeros(ROWS, dtype=torch.int64, device=device)
        return cls(tokens, *(torch.zeros(ROWS, device=device) for _ in range(3)))


@triton.jit
def _leave(  # type: ignore[no-untyped-def]
    x, tile, V, tiles, best, sums,
    SCORED: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Leave what the end needs of a tile's logits x [ROWS, COLS]."""
    row, token = tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
    x = tl.where((token < V)[None, :], x, -float("inf"))
    top = tl.max(rank(x, token[None, :]), 1)
    at = row * tiles + tile
    tl.store(best + at, top)
    if SCORED:
        peak = value_of(top)
        peak = tl.where(is_finite(peak), peak, 0.0)  # -inf: all terms are 0; else nothing counts
        d = x - peak[:, None]
        e = tl.exp(d)
        tl.store(sums + at, tl.sum(e, 1))
        weighed = tl.where(e > 0, d * e, 0.0)  # -inf x 0 is no number
        tl.store(sums + ROWS * tiles + at, tl.sum(weighed, 1))


@triton.jit
def _end_row(  # type: ignore[no-untyped-def]
    row, best, sums, tiles, anchor, tokens, top, confidence, entropy,
    SCORED: tl.constexpr, ANCHOR: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Join a row's tiles."""
    tile = tl.arange(0, BLOCK)
    at, known = row * tiles + tile, tile < tiles
    ranks = tl.load(best + at, mask=known, other=-0x7FFFFFFFFFFFFFFF, cache_modifier=".cg")
    first = tl.max(ranks, 0)
    peak = value_of(first)
    good = is_finite(peak)
    token = tl.where(good, token_of(first), -1)
    if ANCHOR:
        token = tl.where(row == 0, tl.load(anchor), tl.maximum(token, 0))
    tl.store(tokens + row, token)
    tl.store(top + row, peak)
    if SCORED:
        e = tl.load(sums + at, mask=known, other=0.0, cache_modifier=".cg")
        weighed = tl.load(sums + ROWS * tiles + at, mask=known, other=0.0, cache_modifier=".cg")
        tops = value_of(ranks)
        some = tops > -float("inf")  # false of a place beyond the tiles too, whose top is NaN
        d = tl.where(some, tops - peak, 0.0)
        share = tl.where(some, tl.exp(d), 0.0)
        total = tl.sum(share * e, 0)
        spread = tl.sum(share * (weighed + d * e), 0)
        tl.store(confidence + row, tl.where(good, 1.0 / total, 0.0))
        tl.store(entropy + row, tl.where(good, tl.log(total) - spread / total, 0.0))


@triton.jit
def _head(  # type: ignore[no-untyped-def]
    x, squares, eps, w, logits, best, sums, arrived, anchor, tokens, top, confidence, entropy, V, K,
    SUMS: tl.constexpr, STORED: tl.constexpr, SCORED: tl.constexpr, ANCHOR: tl.constexpr,
    TILES: tl.constexpr, JOINED: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
    COLS: tl.constexpr, DEPTH: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    tile = tl.program_id(0)
    squared = load_squares(squares, K, SUMS, ROWS)
    acc = walk(x, w, tile, 0, K, V, K, ROWS, COLS, DEPTH)
    acc = acc * scale_of(squared, K, eps)[:, None]
    if STORED:
        row, col = tl.arange(0, ROWS), tile * COLS + tl.arange(0, COLS)
        to = logits + row[:, None].to(tl.int64) * V + col[None, :]
        tl.store(to, acc, mask=(col < V)[None, :])
    _leave(acc, tile, V, TILES, best, sums, SCORED, ROWS, COLS)
    if JOINED and is_last(arrived, TILES):
        for i in range(ROWS):
            _end_row(i, best, sums, TILES, anchor, tokens, top, confidence, entropy, SCORED,
                     ANCHOR, ROWS, BLOCK)  # fmt: skip


@triton.jit
def _end(  # type: ignore[no-untyped-def]
    best, sums, anchor, tokens, top, confidence, entropy,
    SCORED: tl.constexpr, ANCHOR: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    _end_row(tl.program_id(0), best, sums, TILES, anchor, tokens, top, confidence, entropy, SCORED,
             ANCHOR, ROWS, BLOCK)  # fmt: skip


def head(
    x: Normed, eps: float, w: Tensor, tiles: Tiles, answer: Answer, logits: Tensor | None = None,
    anchor: Tensor | None = None, config: HeadConfig | None = None, *, scored: bool = False,
    early: bool = False,
) -> None:  # fmt: skip
    """The likeliest token of every row of norm(x) w^T, by fp32 logits.

    A row without a finite largest logit (NaN, an infinity) has the token -1, its top as it is,
    confidence 0 and entropy 0.

    Args:
        x: the residual stream [16, K], left for the final norm.
        w: [V, K], contiguous.
        tiles: scratch, made for V and the config.
        answer: written.
        logits: [16, V] fp32, written, where somebody samples from them.
        anchor: [] or [1] int64, for a drafter, whose row i proposes draft i: `answer.tokens` is
            then the target's next input, the anchor in row 0 and the drafts behind it. All rows
            are tokens: a row without a finite logit proposes 0, which verification may refuse.
        scored: whether confidence and entropy are wanted.
        early: as in `kernels/early.py`.

    Raises:
        ValueError: `tiles` is of another vocabulary or config.
    """
    v, k = w.shape
    c = config or HeadConfig.choose(v, k)
    count = triton.cdiv(v, c.cols)
    if tiles.best.shape[1] != count:
        raise ValueError(
            f"A head of {v} tokens in tiles of {c.cols} needs room for {count} tiles; this is for "
            f"{tiles.best.shape[1]}. Make it with Tiles.empty for the same config."
        )
    forms = scored, anchor is not None
    block = triton.next_power_of_2(count)
    _head[(count,)](
        *x, eps, w, logits, *tiles, anchor, *answer, v, k,
        triton.next_power_of_2(x.squares.shape[0]), logits is not None, *forms, count, c.joined,
        block, ROWS, c.cols, c.depth, early, num_warps=c.warps, num_stages=c.stages,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
    if not c.joined:
        _end[(ROWS,)](
            tiles.best, tiles.sums, anchor, *answer, *forms, count, block, ROWS, early,
            num_warps=c.end_warps, enable_fp_fusion=False, **options(early),
        )  # fmt: skip
