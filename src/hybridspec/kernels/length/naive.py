"""How many inputs a round verifies, on the host: the law that `length.py` must obey.

The arithmetic is the policy's own (`policy/`); here stand the limits of `runtime/round.py` around
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy.length import Choice, LengthPolicy


@dataclass(frozen=True)
class Nominal:
    """choice: the policy's. drafted: M. u: inputs that Stage 0 runs."""

    choice: Choice
    drafted: int
    u: int


def select(policy: LengthPolicy, confidence: Tensor, entropy: Tensor, room: int) -> Nominal:
    """Before Stage 0, from scores [D] of drafts 1..D and the tokens that may still be emitted.

    Only the first room - 1 of the drafts that a policy asks for count as proposed.
    """
    drafted = max(0, min(policy.drafts(), room - 1))
    tokens = confidence[:drafted].long()  # no policy reads them
    proposal = Proposal(tokens, confidence[:drafted], entropy[:drafted]) if drafted else None
    choice = policy.select(proposal)
    return Nominal(choice, drafted, min(choice.w0 + policy.lookahead, room, 1 + drafted))


def correct(policy: LengthPolicy, nominal: Nominal, experts: Tensor) -> int:
    """w, after layer 0's router chose experts [>= u, k]."""
    return min(policy.correct(nominal.choice, experts[: nominal.u]), nominal.u)
