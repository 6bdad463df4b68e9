"""The small kernels that hold a run together, one warp each."""

# Triton has no types.
# mypy: disable-error-code="import-untyped,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS
from hybridspec.runtime.device.numbers import Numbers
from hybridspec.runtime.device.ring import ABORTED, FIELD, Ring

# Places of `Numbers`.
POSITION, LOOKED, VERIFIED, KEPT = (tl.constexpr(i) for i in range(4))
HELD, ADDED, PLACE, BLOCK = (tl.constexpr(i) for i in range(4, 8))
NOMINAL, ACCEPTED, ROOM, DONE = (tl.constexpr(i) for i in range(8, 12))
ROUNDS, LEFT, GOING, DAMAGED = (tl.constexpr(i) for i in range(12, 16))


@triton.jit
def _arm(numbers, MOST: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(numbers + LEFT, MOST)
    tl.store(numbers + GOING, (tl.load(numbers + DONE) == 0).to(tl.int32))


@triton.jit
def _lose(numbers):  # type: ignore[no-untyped-def]
    tl.store(numbers + DAMAGED, 1)
    tl.store(numbers + LOOKED, 1)
    tl.store(numbers + VERIFIED, 1)


@triton.jit
def _mark(numbers, bad, tokens, ROWS: tl.constexpr, EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    take_turn(EARLY)
    row = tl.arange(0, ROWS)
    lost = (tl.load(bad + row) != 0) | (tl.load(numbers + DAMAGED) != 0)
    tl.store(tokens + row, tl.full((ROWS,), -1, tl.int64), mask=lost)


@triton.jit
def _settle(numbers, EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    take_turn(EARLY)


@triton.jit
def _emit(  # type: ignore[no-untyped-def]
    numbers, emitted, position, abort, words,
    SIZE: tl.constexpr, DRAFTS: tl.constexpr, WHOLE: tl.constexpr, ABORTED: tl.constexpr,
    FIELD: tl.constexpr, ROWS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    asked = tl.load(abort, volatile=True) != 0  # no kernel writes it: fetched while others end
    take_turn(EARLY)
    row = tl.arange(0, ROWS)
    first, m, room = tl.load(numbers + POSITION), tl.load(numbers + KEPT), tl.load(numbers + ROOM)
    place = first + m
    tl.store(numbers + POSITION, place)
    tl.store(position, (place + 1).to(tl.int64))
    tl.store(numbers + HELD, first)
    tl.store(numbers + ADDED, m)
    tl.store(numbers + PLACE, place)
    wanted = tl.maximum(tl.minimum(DRAFTS, room - 1), 0)
    tl.store(numbers + BLOCK, WHOLE if WHOLE > 0 else 1 + wanted)

    done, number = tl.load(numbers + DONE), tl.load(numbers + ROUNDS) + 1
    done = tl.where(asked & (done == 0), ABORTED, done)
    left = tl.load(numbers + LEFT) - 1
    tl.store(numbers + DONE, done)
    tl.store(numbers + ROUNDS, number)
    tl.store(numbers + LEFT, left)
    tl.store(numbers + GOING, ((done == 0) & (left > 0)).to(tl.int32))

    figures = tl.load(numbers + NOMINAL) | (tl.load(numbers + VERIFIED) << FIELD)
    figures |= tl.load(numbers + ACCEPTED) << 2 * FIELD
    figures |= (m << 3 * FIELD) | (done << 4 * FIELD)
    tag = number.to(tl.int64) << 32
    to = words + (number % SIZE) * (1 + ROWS)
    # Written through to the host's memory, each word by one store.
    tl.store(to, tag | figures.to(tl.int64), cache_modifier=".wt")
    token = tl.load(emitted + row)
    tl.store(to + 1 + row, tag | token, mask=row < m, cache_modifier=".wt")


def arm(numbers: Numbers, most: int) -> None:
    """Before the rounds of a launch: `most` of them at the most, and none if the answer ended."""
    _arm[(1,)](numbers.all, most, num_warps=1)


def lose(numbers: Numbers) -> None:
    """In place of a stage, for a length that no stage has: nothing of this round is kept, and no
    kernel after it takes that length for true."""
    _lose[(1,)](numbers.all, num_warps=1)


def mark(numbers: Numbers, bad: Tensor, tokens: Tensor, *, early: bool = False) -> None:
    """What ends an answer before anything is kept, in the form that `accept` knows: a negative
    token where a row had no finite logit, or everywhere after `lose`.

    Args:
        bad: [16] int32, of the sampler. tokens: [16] int64, changed in place.
        early: as in `kernels/early.py`.
    """
    _mark[(1,)](numbers.all, bad, tokens, ROWS, early, num_warps=1, **options(early))


def settle(numbers: Numbers, *, early: bool = False) -> None:
    """Nothing: a kernel between one that writes a length and one that reads it ahead of its
    turn."""
    _settle[(1,)](numbers.all, early, num_warps=1, **options(early))


def emit(
    numbers: Numbers, emitted: Tensor, position: Tensor, ring: Ring, drafts: int, whole: int, *,
    early: bool = False,
) -> None:  # fmt: skip
    """A round's end: its row in the ring, the lengths of the next round, and whether there is one.

    Args:
        emitted: [16] int64, the m tokens kept. position: [] int64, written: where the sampler's
            next first token is.
        drafts: that a round asks for. whole: rows of a block that always runs whole; 0 if it is as
            long as the drafts wanted.
        early: as in `kernels/early.py`.
    """
    _emit[(1,)](
        numbers.all, emitted, position, ring.abort, ring.words, ring.rounds, drafts, whole, ABORTED,
        FIELD, ROWS, early, num_warps=1, **options(early),
    )  # fmt: skip
