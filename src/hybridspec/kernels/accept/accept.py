"""The end of a round as one small Triton kernel: how many drafts hold, what is kept, what is next.

One warp, one program. Nothing is read back: the next round may be queued before this one has run,
and keeps nothing if the answer ended here.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.accept.naive import DAMAGED, LENGTH, STOP
from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS

NO_TOKEN = -1  # fills what has no token: no id equals it


class Round(NamedTuple):
    """What the rounds of an answer leave, all on the device.

    accepted, kept [] int32: A and m of the round. done [] int32: 0 while the answer goes on, else
    why it ended (`naive.py`). room [] int32: tokens that may still be emitted. anchor [1] int64:
    the last token kept. emitted [16] int64: the m tokens kept, NO_TOKEN behind them.
    """

    accepted: Tensor
    kept: Tensor
    done: Tensor
    room: Tensor
    anchor: Tensor
    emitted: Tensor

    @classmethod
    def empty(cls, device: torch.device | str) -> Round:
        """Memory for it, before an answer: the caller sets room and anchor, and done to 0."""
        numbers = (torch.zeros((), dtype=torch.int32, device=device) for _ in range(4))
        anchor = torch.zeros(1, dtype=torch.int64, device=device)
        emitted = torch.full((ROWS,), NO_TOKEN, dtype=torch.int64, device=device)
        return cls(*numbers, anchor, emitted)


def stop_table(stops: list[int], size: int, device: torch.device | str) -> Tensor:
    """[size] int64: stop ids, NO_TOKEN behind them; the size stays what a graph was captured with.

    Raises:
        ValueError: more ids than places.
    """
    if len(stops) > size:
        raise ValueError(f"{len(stops)} stop ids do not fit a table of {size}. Make it larger.")
    return torch.tensor(stops + [NO_TOKEN] * (size - len(stops)), device=device)


@triton.jit
def _accept(  # type: ignore[no-untyped-def]
    inputs, y, w, stops, accepted, kept, done, room, anchor, emitted,
    STOPS: tl.constexpr, WIDE: tl.constexpr, STOP: tl.constexpr, LENGTH: tl.constexpr,
    DAMAGED: tl.constexpr, NO_TOKEN: tl.constexpr, ROWS: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    row, place = tl.arange(0, ROWS), tl.arange(0, WIDE)
    w, left, before = tl.load(w), tl.load(room), tl.load(done)
    token, following = tl.load(y + row), row + 1
    draft = tl.load(inputs + following, mask=following < ROWS, other=NO_TOKEN)
    stop = tl.load(stops + place, mask=place < STOPS, other=NO_TOKEN)

    a = tl.min(tl.where((following < w) & (draft == token), ROWS, row), 0)
    damaged = tl.max(((row < w) & (token < 0)).to(tl.int32), 0) > 0
    ends = tl.max((token[:, None] == stop[None, :]).to(tl.int32), 1) > 0
    open_ = (before == 0) & (damaged == 0)
    a = tl.where(open_, a, 0)
    m = tl.where(open_, tl.minimum(a + 1, left), 0)
    last = tl.min(tl.where(ends & (row < m), row, ROWS), 0)
    m = tl.minimum(m, last + 1)
    reason = tl.where(last < ROWS, STOP, tl.where(m == left, LENGTH, 0))
    reason = tl.where(damaged, DAMAGED, reason)

    tl.store(accepted, a)
    tl.store(kept, m)
    tl.store(room, left - m)
    tl.store(done, tl.where(before == 0, reason, before))
    tl.store(emitted + row, tl.where(row < m, token, NO_TOKEN))
    tl.store(anchor + row * 0, token, mask=row == m - 1)


def accept(
    inputs: Tensor, y: Tensor, w: Tensor, stops: Tensor, state: Round, *, early: bool = False
) -> None:
    """Compare, cut at the first stop id or where no room is left, and name the next anchor.

    Once `done` is set, a round keeps nothing: m = 0 and all else stays as it is.

    Args:
        inputs: [16] int64, the anchor and drafts. y: [16] int64, the target's tokens, negative
            where a row had no finite logit: among the first w that ends the answer.
        w: [] int32, how many inputs were verified.
        stops: [S] int64, see `stop_table`.
        state: room, done and anchor are read and written, the rest written.
        early: as in `kernels/early.py`.
    """
    count = stops.shape[0]
    _accept[(1,)](
        inputs, y, w, stops, *state, count, triton.next_power_of_2(count), STOP, LENGTH, DAMAGED,
        NO_TOKEN, ROWS, early, num_warps=1, **options(early),
    )  # fmt: skip
