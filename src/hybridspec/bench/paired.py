"""Two systems on the same questions: is the one no worse than the other by more than a margin?

The paper (appendix D.3, E.4) takes the paired difference of the shares of right answers, and a
one-sided 95% lower bound "by a normal approximation from the problems on which the two systems
disagree", against a margin of -1 point that was fixed before. With n questions, b of them right by
the system alone and c right by the baseline alone:

    d = (b - c) / n,    bound = d - z sqrt(b + c - (b - c)^2 / n) / n,    z = 1.645

Its figures are n = 1,319, b = 9, c = 11: d = -0.15 points and a bound of -0.71.

Where hardly any question tells the systems apart this bound is no bound: it is d itself at b = c =
0, however few the questions. The score bound of Tango (Statistics in Medicine 17, 1998) inverts the
test of d = D, with the variance that D would have, and holds there too. Both are reported, and both
must lie above the margin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95
Z = NormalDist().inv_cdf(CONFIDENCE)
STEPS = 60  # halvings of an interval of length 1: below float64's resolution


@dataclass(frozen=True, slots=True)
class Paired:
    """Counts of questions: right by both, by neither, by one alone. At least one question."""

    both: int
    neither: int
    only_baseline: int
    only_system: int

    @property
    def questions(self) -> int:
        """n."""
        return self.both + self.neither + self.only_baseline + self.only_system

    @property
    def difference(self) -> float:
        """d: the system's share of right answers less the baseline's."""
        return (self.only_system - self.only_baseline) / self.questions

    @property
    def bound(self) -> float:
        """The paper's one-sided 95% lower bound of the difference."""
        b, c, n = self.only_system, self.only_baseline, self.questions
        return self.difference - Z * math.sqrt(b + c - (b - c) ** 2 / n) / n

    @property
    def score_bound(self) -> float:
        """Tango's: the difference that the score test just does not reject."""
        low, high = -1.0, self.difference
        for _ in range(STEPS):
            middle = (low + high) / 2
            if self._score(middle) > Z:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    def not_inferior(self, margin: float) -> bool:
        """Whether both bounds lie above -margin."""
        return min(self.bound, self.score_bound) > -margin

    def _score(self, d: float) -> float:
        """How many standard deviations the counts lie above what a true difference d expects.

        `q` is the most likely share of questions right by the baseline alone, given d: the larger
        root of 2 q^2 + linear q + constant = 0.
        """
        b, c, n = self.only_system, self.only_baseline, self.questions
        excess = b - c - n * d
        linear = (-b - c) / n + (2 - (b - c) / n) * d
        constant = -c / n * d * (1 - d)
        q = (math.sqrt(max(linear**2 - 8 * constant, 0.0)) - linear) / 4
        variance = n * (2 * q + d * (1 - d))
        if variance <= 0:
            return math.copysign(math.inf, excess) if excess else 0.0
        return excess / math.sqrt(variance)


def least_questions(margin: float) -> int:
    """How many questions clear the margin if none of them tells the systems apart.

    The score bound is then -z^2 / (n + z^2).
    """
    return math.floor(Z**2 * (1 / margin - 1)) + 1
