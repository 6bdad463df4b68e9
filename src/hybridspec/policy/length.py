"""The interface of a verification-length policy, and the simplest one.

Lengths count target inputs: w = 1 is plain decoding, w = 16 the anchor and fifteen drafts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from hybridspec.core import Proposal


class LengthPolicy(Protocol):
    """Chooses how many inputs a round verifies (paper Algorithm 1, lines 2 to 5).

    Attributes:
        longest: the largest length it may choose; 1 needs no drafter.
        lookahead: inputs that Stage 0 runs beyond the chosen length, so that `correct` may take
        them. scored: whether `select` reads the proposal's confidence and entropy.
    """

    @property
    def longest(self) -> int:
        """See above."""

    @property
    def lookahead(self) -> int:
        """See above."""

    @property
    def scored(self) -> bool:
        """See above."""

    def select(self, proposal: Proposal | None) -> int:
        """w0, from the proposal alone; None when nothing was drafted."""

    def correct(self, w0: int, experts: Tensor) -> int:
        """w, after the first router: experts [u, k] of layer 0."""


@dataclass(frozen=True, slots=True)
class FixedLength:
    """The same length every round: `ar` at 1, `dflash` at the block size, `static:W` between."""

    longest: int
    lookahead: int = 0
    scored: bool = False

    def select(self, proposal: Proposal | None) -> int:
        """The fixed length."""
        return self.longest

    def correct(self, w0: int, experts: Tensor) -> int:
        """No correction."""
        return w0
