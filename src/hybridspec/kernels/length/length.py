"""The verification length, chosen on the device: two small Triton kernels of one warp each.

`select` stands between the drafter and Stage 0, `correct` between layer 0's router and Stage 1.
Lengths stay in device memory, where the round's other kernels read them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.length.acceptance import conditional
from hybridspec.kernels.length.rule import Rule
from hybridspec.kernels.linear.config import ROWS
from hybridspec.policy.acceptance import EDGE, MIN_ENTROPY

CHUNK = 32  # knots a step: 16 numbers a thread


class Lengths(NamedTuple):
    """nominal, u, w [] int32: w0, the inputs of Stage 0 and those of Stage 1. prefix [16] fp64:
    p_i in place i, the probability that the first i drafts are accepted; p_0 is 1, and places
    beyond the drafts are 0."""

    nominal: Tensor
    u: Tensor
    w: Tensor
    prefix: Tensor

    @classmethod
    def empty(cls, device: torch.device | str) -> Lengths:
        """Memory for it."""
        numbers = (torch.ones((), dtype=torch.int32, device=device) for _ in range(3))
        return cls(*numbers, torch.zeros(ROWS, dtype=torch.float64, device=device))


@triton.jit
def _rounded(x):  # type: ignore[no-untyped-def]
    """To float32 and back. Sums of the quotients' law run in float64 and are stored in float32; a
    float64 quotient of two float32 numbers, rounded, is the float32 quotient."""
    return x.to(tl.float32).to(tl.float64)


@triton.jit
def _best(  # type: ignore[no-untyped-def]
    c, drafted, cost, rates, prefix, RATIO: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """w0 from conditional probabilities c [ROWS] fp64, summed draft by draft as the host does;
    leaves the prefix."""
    row = tl.arange(0, ROWS)
    one = tl.full((), 1, tl.float64)
    p, tokens, best = one, one, one - 1.0
    w0 = drafted + 1  # where a quotient has no length among its choices
    every = tl.where(row == 0, 1.0, tl.zeros((ROWS,), tl.float64))
    for i in tl.static_range(1, ROWS):
        p *= tl.sum(tl.where(row == i, c, 0.0), 0)
        every = tl.where((row == i) & (row <= drafted), p, every)
        ms = tl.load(cost + i + 1, mask=i <= drafted, other=1.0)
        if RATIO:
            tokens += _rounded(p)
            score = _rounded(_rounded(tokens) / ms)
            better = score > best
        else:
            tokens += p
            score = tokens - tl.load(rates) * ms
            better = (score > best) | (i == 1)
        better = better & (i <= drafted)
        best, w0 = tl.where(better, score, best), tl.where(better, i + 1, w0)
    tl.store(prefix + row, every)
    return w0


@triton.jit
def _select(  # type: ignore[no-untyped-def]
    confidence, entropy, room, x, y, weights, cost, rates, nominal, u, w, prefix, KNOTS,
    LENGTH: tl.constexpr, RATIO: tl.constexpr, D: tl.constexpr, DRAFTS: tl.constexpr,
    AHEAD: tl.constexpr, EDGE: tl.constexpr, MIN_ENTROPY: tl.constexpr, ROWS: tl.constexpr,
    CHUNK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    left = tl.load(room)
    drafted = tl.maximum(tl.minimum(DRAFTS, left - 1), 0)
    row = tl.arange(0, ROWS)
    real = (row > 0) & (row <= drafted)
    if LENGTH > 0:
        w0 = drafted * 0 + LENGTH
    else:
        if D > 0:
            c = conditional(confidence, entropy, real, x, y, weights, KNOTS, D, EDGE, MIN_ENTROPY,
                            ROWS, CHUNK)  # fmt: skip
        else:
            c = tl.load(confidence + row, mask=real, other=0.0).to(tl.float64)
        w0 = _best(c, drafted, cost, rates, prefix, RATIO, ROWS)
    most = tl.minimum(left, drafted + 1)
    tl.store(nominal, w0)
    tl.store(u, tl.minimum(w0 + AHEAD, most))
    tl.store(w, tl.minimum(w0, most))


@triton.jit
def _correct(  # type: ignore[no-untyped-def]
    ids, nominal, u, w, prefix, cost, rates, mean, given, GIVEN,
    TOP: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    w0, seen = tl.load(nominal), tl.load(u)
    if w0 < seen:  # Stage 0 ran the draft in question
        flat, place = tl.arange(0, ROWS * WIDE), tl.arange(0, WIDE)
        row, at = flat // WIDE, flat % WIDE
        before = (row < w0) & (at < TOP)
        known = tl.load(ids + row * TOP + at, mask=before, other=-1)
        mine = tl.load(ids + w0 * TOP + place, mask=place < TOP, other=-1)
        old = tl.max((mine[:, None] == known[None, :]).to(tl.int32), 1)
        new = tl.sum(((old == 0) & (place < TOP)).to(tl.int32), 0)
        surplus = tl.load(given + w0 * GIVEN + new) - tl.load(mean + w0)
        curve = tl.load(cost + w0 + 1) - tl.load(cost + w0) - tl.load(rates + 1)
        added = curve + tl.load(rates + 2) * surplus
        worth = tl.load(prefix + w0) > tl.load(rates) * added
        tl.store(w, w0 + worth.to(tl.int32))


def select(
    rule: Rule, confidence: Tensor, entropy: Tensor, room: Tensor, lengths: Lengths, *,
    early: bool = False,
) -> None:  # fmt: skip
    """The nominal length and Stage 0's inputs, u = min(w0 + lookahead, room, 1 + M) of M drafts.

    M is what the rule asks for, or room - 1 if that is less. Without a draft w0 is 1 (or the fixed
    length); without room u and w are 0. Without a correction, w is final.

    Args:
        confidence, entropy: [16] fp32, of draft i in place i (`Answer` of the drafter's head);
            place 0 and those beyond M are not read as scores. Never NaN in places 1..M.
        room: [] int32, tokens that may still be emitted.
        lengths: written.
        early: as in `kernels/early.py`.
    """
    block, knots = (0, 0) if rule.x is None else rule.x.shape
    _select[(1,)](
        confidence, entropy, room, rule.x, rule.y, rule.weights, rule.cost, rule.rates, *lengths,
        knots, rule.length, rule.ratio, block, rule.drafts, rule.lookahead, EDGE, MIN_ENTROPY, ROWS,
        CHUNK, early, num_warps=1, enable_fp_fusion=False, **options(early),
    )  # fmt: skip


def correct(rule: Rule, ids: Tensor, lengths: Lengths, *, early: bool = False) -> None:
    """w = w0 + 1 if the draft after the nominal ones is worth its cost by equation 6, now that its
    layer-0 experts are known. Only for a rule with a lookahead.

    Args:
        ids: [16, k] int32, layer 0's (`Routed.ids`); rows from u on are not read.
        lengths: as `select` left it; w is written.
        early: as in `kernels/early.py`.

    Raises:
        ValueError: the rule has no correction.
    """
    if rule.mean is None or rule.given is None:
        raise ValueError("This rule has no correction: w is final after `select`.")
    top = ids.shape[1]
    _correct[(1,)](
        ids, *lengths, rule.cost, rule.rates, rule.mean, rule.given, rule.given.shape[1], top,
        triton.next_power_of_2(top), ROWS, early, num_warps=1, enable_fp_fusion=False,
        **options(early),
    )  # fmt: skip
