"""What became of the drafts that a round proposed and did not verify (paper section 4.2).

A round proposes M drafts and verifies w - 1. An unverified draft d_i would have been accepted if
d_1..d_i are the tokens that the answer goes on with: with greedy decoding, and with the seeded
draws that all systems share, those are the target's own tokens. Where the answer ends before d_i's
place, nothing is known of d_i, and it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence


def judge(drafts: Sequence[int], w: int, rest: Sequence[int]) -> tuple[int, int]:
    """How many unverified drafts the answer judges, and how many of these it says.

    Args:
        drafts: d_1..d_M.
        w: target inputs verified.
        rest: the answer's tokens after the round's anchor, to its end.
    """
    known = min(len(drafts), len(rest))
    differ = (i for i, (ours, theirs) in enumerate(zip(drafts, rest, strict=False))
              if ours != theirs)  # fmt: skip
    agreed = next(differ, known)
    return max(known - (w - 1), 0), max(agreed - (w - 1), 0)
