"""`script.draft` as one small Triton kernel of one warp: two loads that wait for each other.

It stands behind the drafter's head and overwrites what that has said, so that the drafter's work is
all done and the words are the script's. Nothing is read back.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from hybridspec.bench.scripted.script import NEAR, ROWS, SPREAD, Drafts, Script
from hybridspec.kernels.early import options, take_turn


@triton.jit  # type: ignore[untyped-decorator]
def _draft(  # type: ignore[no-untyped-def]
    anchor, position, order, place, accepted, confidence, entropy, window, tokens, confidences,
    entropies, CYCLE, NEAR: tl.constexpr, SPREAD: tl.constexpr, ROWS: tl.constexpr,
    EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    p, row = tl.load(position), tl.arange(0, ROWS)
    at = tl.load(window) + (p + tl.load(window + 2)) % tl.load(window + 1)
    wrong = row > tl.load(accepted + at)
    ahead = row + tl.where(wrong, NEAR + p % SPREAD, 0)
    to = (tl.load(place + tl.load(anchor)) + ahead + CYCLE) % CYCLE  # -1 of a token outside too
    tl.store(tokens + row, tl.load(order + to))
    score = at.to(tl.int64) * ROWS + row
    tl.store(confidences + row, tl.load(confidence + score))
    tl.store(entropies + row, tl.load(entropy + score))


def draft(
    script: Script, anchor: Tensor, position: Tensor, out: Drafts, *, early: bool = False
) -> None:
    """As the law.

    Args:
        script: tables.
        anchor: [1] int64, a token of the cycle. position: [] int32, where it stands: P >= 0.
        out: written; of an `Answer`, its tokens and scores. `out.tokens[:1]` may be the anchor.
        early: as in `kernels/early.py`.
    """
    _draft[(1,)](
        anchor, position, script.order, script.place, script.accepted, script.confidence,
        script.entropy, script.window, *out, len(script.order), NEAR, SPREAD, ROWS, early,
        num_warps=1, **options(early),
    )  # fmt: skip
