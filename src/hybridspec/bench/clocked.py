"""What a policy itself takes in a round: part of a system's cost that fixed lengths do not have."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy.length import Choice, LengthPolicy

R = TypeVar("R")


@dataclass
class Clocked:
    """A policy whose own time is taken, round by round."""

    policy: LengthPolicy
    seconds: list[float] = field(default_factory=list)

    @property
    def longest(self) -> int:
        """The policy's."""
        return self.policy.longest

    @property
    def lookahead(self) -> int:
        """The policy's."""
        return self.policy.lookahead

    @property
    def scored(self) -> bool:
        """The policy's."""
        return self.policy.scored

    @property
    def ms(self) -> float:
        """What it takes in a typical round."""
        return 1e3 * statistics.median(self.seconds) if self.seconds else 0.0

    def drafts(self) -> int:
        """The policy's; a round begins with it."""
        self.seconds.append(0.0)
        return self._timed(self.policy.drafts)

    def select(self, proposal: Proposal | None) -> Choice:
        """The policy's."""
        return self._timed(lambda: self.policy.select(proposal))

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """The policy's."""
        return self._timed(lambda: self.policy.correct(choice, experts))

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        """The policy's, if it learns."""
        told = getattr(self.policy, "observe", None)
        if told is not None:
            self._timed(lambda: told(w, accepted, seconds))

    def _timed(self, call: Callable[[], R]) -> R:
        began = time.perf_counter()
        result = call()
        self.seconds[-1] += time.perf_counter() - began
        return result
