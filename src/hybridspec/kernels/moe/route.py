"""Router, top-k and the list of distinct experts, as two launches.

The logits are a product like others. Then one program a token chooses its experts, and the last of
the sixteen to arrive lists the distinct ones.
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
from hybridspec.kernels.linear.norm import Normed
from hybridspec.kernels.linear.product import norm_product
from hybridspec.kernels.moe import config as cuts

WORD = 32  # experts of one word of the set that tokens leave theirs in


class Routed(NamedTuple):
    """The experts of a pass, on the device, for U distinct ones among at most 16 k.

    logits [16, E + 1] fp32 of every row; the last column is the shared expert's gate.
    ids [16, k] int32: of each token, likeliest first. shares [16, k] fp32: their weights, 0 for
    tokens beyond the length. opening [16] fp32: the shared expert's weight, 0 beyond the length.
    distinct [16 k + 1] int32: ascending, in the first U places; the place beyond the last is there
    to be read. before [E + 1] int32: how many distinct experts have a lower id; the last is U.
    left [1 + 16 k] int32: for the streaming experts alone, from their first kernel to their second.
    """

    logits: Tensor
    ids: Tensor
    shares: Tensor
    opening: Tensor
    distinct: Tensor
    before: Tensor
    left: Tensor

    @classmethod
    def empty(cls, experts: int, k: int, device: torch.device | str) -> Routed:
        """Memory for a model with so many experts, k a token."""
        whole = {"dtype": torch.int32, "device": device}
        return cls(
            torch.empty(ROWS, experts + 1, device=device), torch.empty(ROWS, k, **whole),
            torch.empty(ROWS, k, device=device), torch.empty(ROWS, device=device),
            torch.zeros(min(experts, ROWS * k) + 1, **whole), torch.empty(experts + 1, **whole),
            torch.zeros(min(experts, ROWS * k) + 1, **whole),
        )  # fmt: skip

    @property
    def places(self) -> int:
        """Most distinct experts that there can be."""
        return len(self.distinct) - 1

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
def _list(words, distinct, before, E, COUNT: tl.constexpr, WORD: tl.constexpr):  # type: ignore[no-untyped-def]
    """From the set of experts to the list; the set is empty again."""
    expert = tl.arange(0, COUNT)
    word = tl.load(words + expert // WORD, cache_modifier=".cg")
    used = (word >> (expert % WORD)) & 1
    place = tl.cumsum(used, 0) - used
    tl.store(before + expert, place, mask=expert < E)
    tl.store(before + E, tl.sum(used, 0))
    tl.store(distinct + place, expert, mask=used > 0)
    tl.debug_barrier()  # every thread has read the set
    tl.store(words + tl.arange(0, COUNT // WORD), tl.zeros((COUNT // WORD,), tl.int32))


@triton.jit
def _choose(  # type: ignore[no-untyped-def]
    logits, length, ids, shares, opening, distinct, before, arrived, E,
    TOP: tl.constexpr, TOPS: tl.constexpr, COUNT: tl.constexpr, WORD: tl.constexpr,
    ROWS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, expert, turn = tl.program_id(0), tl.arange(0, COUNT), tl.arange(0, TOPS)
    real = row < tl.load(length)
    logits += row * (E + 1)
    x = tl.load(logits + expert, mask=expert < E, other=-float("inf"))
    gate = tl.load(logits + E)
    tl.store(opening + row, tl.where(real, 1.0 / (1.0 + tl.exp(-gate)), 0.0))

    left = _rank(x, expert, COUNT)
    best_ids, values = tl.zeros((TOPS,), tl.int32), tl.full((TOPS,), -float("inf"), tl.float32)
    for i in tl.static_range(TOP):
        best = tl.max(left, 0)
        first = COUNT - 1 - best.to(tl.int32)  # the low half
        best_ids = tl.where(turn == i, first, best_ids)
        values = tl.where(turn == i, _value(best), values)
        left = tl.where(expert == first, -0x7FFFFFFFFFFFFFFF, left)
    share = tl.exp(values - tl.max(values, 0))
    share = tl.where(real, share / tl.sum(share, 0), 0.0)
    tl.store(ids + row * TOP + turn, best_ids, mask=turn < TOP)
    tl.store(shares + row * TOP + turn, share, mask=turn < TOP)

    chosen = (left == -0x7FFFFFFFFFFFFFFF) & real
    bits = tl.where(chosen, 1 << (expert % WORD), 0)
    word = tl.sum(tl.reshape(bits, (COUNT // WORD, WORD)), 1)
    tl.atomic_or(arrived + 1 + tl.arange(0, COUNT // WORD), word)
    if is_last(arrived, ROWS):
        _list(arrived + 1, distinct, before, E, COUNT, WORD)


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
    c = config or cuts.router(router.shape[0] - 1, router.shape[1])
    norm_product(x, eps, router, routed.logits, workspace, c, early=early)
    choose(length, routed, workspace, early=early)


def choose(length: Tensor, routed: Routed, workspace: Workspace, *, early: bool = False) -> None:
    """As `route`, from `routed.logits`: what Stage 1 does when it takes fewer tokens than Stage 0
    looked at."""
    experts, top = routed.logits.shape[1] - 1, routed.ids.shape[1]
    count = max(WORD, triton.next_power_of_2(experts))
    workspace.check(0, 1 + count // WORD)
    _choose[(ROWS,)](
        routed.logits, length, *routed[1:-1], workspace.arrived, experts, top,
        triton.next_power_of_2(top), count, WORD, ROWS, early, num_warps=1,
        enable_fp_fusion=False, **options(early),
    )  # fmt: skip
