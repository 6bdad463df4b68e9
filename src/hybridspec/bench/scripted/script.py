"""What a scripted drafter says: the tables, and the law that `drafts.py` must obey.

At position P the trace says how many drafts are right. These are the anchor's successors; then
comes a wrong one, a token some way ahead on the cycle, and its successors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.bench.scripted.cycle import Cycle

ROWS = 16  # the anchor's and fifteen drafts'
NEAR, SPREAD = 17, 24  # a wrong draft is 17 to 40 tokens ahead: beyond any right one of its round


class Drafts(NamedTuple):
    """tokens [16] int64: the anchor in row 0, draft i in row i. confidence, entropy [16] fp32, row
    0 of them 0. As `kernels.head.head.Answer` has them."""

    tokens: Tensor
    confidence: Tensor
    entropy: Tensor

    @classmethod
    def empty(cls, device: torch.device | str) -> Drafts:
        """Memory for it."""
        tokens = torch.zeros(ROWS, dtype=torch.int64, device=device)
        return cls(tokens, *(torch.zeros(ROWS, device=device) for _ in range(2)))


@dataclass(frozen=True, eq=False)
class Script:
    """Tables on one device.

    Attributes:
        order [n], place [V]: int64, the cycle's.
        accepted: [T] int32, A_D, of several traces end to end.
        confidence, entropy: [T, 16] fp32, draft i in column i, column 0 unused.
        window: [3] int32, first row and rows of the trace in force, and the offset that a position
            has in it, modulo its rows. It alone changes: recorded work serves every trace.
    """

    order: Tensor
    place: Tensor
    accepted: Tensor
    confidence: Tensor
    entropy: Tensor
    window: Tensor

    @classmethod
    def of(cls, cycle: Cycle, accepted: Tensor, confidence: Tensor, entropy: Tensor) -> Script:
        """From a trace's accepted [T] and scores [T, 15], which go to the cycle's device.

        Raises:
            ValueError: a cycle on which a wrong draft could be right.
        """
        if len(cycle) < NEAR + SPREAD:
            raise ValueError(
                f"The cycle has {len(cycle)} tokens; wrong drafts are up to {NEAR + SPREAD - 1} "
                "ahead, so it needs more than that. Use a larger vocabulary."
            )
        device = cycle.order.device
        scores = [torch.nn.functional.pad(t.float(), (1, 0)) for t in (confidence, entropy)]
        window = torch.tensor([0, len(accepted), 0], dtype=torch.int32, device=device)
        right, sure, nats = (t.to(device) for t in (accepted.to(torch.int32), *scores))
        return cls(cycle.order, cycle.place, right, sure, nats, window)

    def begin(self, rows: range, position: int, place: int) -> None:
        """Walk the trace in these rows, and let position P be at a place of it."""
        offset = (place - position) % len(rows)
        window = torch.tensor([rows.start, len(rows), offset], dtype=torch.int32)
        self.window.copy_(window)


def draft(script: Script, anchor: Tensor, position: Tensor, out: Drafts) -> None:
    """Write what the drafter says after an anchor [1] int64 at position [] int32."""
    first, rows, offset = script.window
    at = first + (position + offset) % rows
    row = torch.arange(ROWS, device=anchor.device)
    wrong = row > script.accepted[at]
    ahead = row + wrong * (NEAR + position % SPREAD)
    out.tokens.copy_(script.order[(script.place[anchor] + ahead) % len(script.order)])
    out.confidence.copy_(script.confidence[at])
    out.entropy.copy_(script.entropy[at])
