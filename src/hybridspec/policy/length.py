"""The interface of a verification-length policy, and the simplest one.

Lengths count target inputs: w = 1 is plain decoding, w = 16 the anchor and fifteen drafts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from hybridspec.core import Proposal


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy chose before Stage 0, and what it must remember for the correction.

    w0: the nominal length. prefix: [M] the probabilities p_i it saw, if it estimated any; Python
    numbers where the proposal lies in host memory.
    """

    w0: int
    prefix: Tensor | list[float] | None = None


class LengthPolicy(Protocol):
    """Chooses how many inputs a round verifies (paper Algorithm 1, lines 2 to 5).

    A policy that learns has `observe(w, accepted, seconds)` besides, and is told of each finished
    round; it may have `begin()`, and is told of each new answer.
    One that can say what it goes by has `reason()`, in words, and `scores(prefix)`, by length.

    Attributes:
        longest: the largest length it may choose; 1 needs no drafter.
        lookahead: inputs that Stage 0 runs beyond the chosen length, so that `correct` may take
            them.
        scored: whether `select` reads the proposal's confidence and entropy.
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

    def drafts(self) -> int:
        """How many drafts the coming round shall have; 0 leaves the drafter out."""

    def select(self, proposal: Proposal | None) -> Choice:
        """w0, from the proposal alone; None when nothing was drafted."""

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """w, after the first router: experts [u, k] of layer 0."""


class Uncorrected:
    """What most policies share: a whole proposal every round, and no second look."""

    longest: int

    def drafts(self) -> int:
        """All it may verify."""
        return self.longest - 1

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """No correction."""
        return choice.w0


@dataclass(frozen=True, slots=True)
class FixedLength(Uncorrected):
    """The same length every round: `ar` at 1, `dflash` at the block size, `static:W` between.

    `length` is that length where the drafter is to propose for a longer one, as it must for a
    policy that chooses: so a calibration measures what such a policy will pay.
    """

    longest: int
    length: int = 0
    lookahead: int = 0
    scored: bool = False

    def select(self, proposal: Proposal | None) -> Choice:
        """The fixed length."""
        return Choice(self.length or self.longest)

    def reason(self) -> str:
        """What it goes by."""
        return f"a fixed length of {self.length or self.longest}"
