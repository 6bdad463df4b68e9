"""Answers of the embedded pair, thinned to the acceptance of a published pair.

The drafts of a toy are accepted less often than those of a 35B model. So rounds are left out of its
answers, hard ones more often, until a whole block's mean is the published one. What is kept is kept
whole: a round's confidences stay with its acceptance, its positions with each other, and rounds in
their order. README.md has the reasons and what it cannot do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from hybridspec.calibration.trace import Trace
from hybridspec.errors import RequestError

STEEPEST = 4.0  # of the tilt: e^4 a draft leaves nothing but the easiest rounds
HALVINGS = 60  # of the tilt: to the last bit of a float
PHASES, APART = 32, 1 / 256  # choices among equals that are tried for the nearest mean
NEAR = 0.01  # of the wanted mean
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Thinned:
    """A trace's rounds, kept and end to end. A walk at w = 16 goes from start to start.

    Attributes:
        trace: its positions; `left` counts to the end of all of it.
        starts: [R] where whole blocks begin.
        tilt: how much more often a round is kept for each draft accepted: by e^tilt.
        rounds: of the answers, before any was left out. distinct: of them, those that are in it.
    """

    trace: Trace
    starts: Ints
    tilt: float
    rounds: int
    distinct: int

    @property
    def mean(self) -> float:
        """AL: tokens a round of a whole block."""
        return len(self.trace) / len(self.starts)


def thinned(trace: Trace, mean: float, positions: int, phase: float = 0.0) -> Thinned:
    """About so many positions of rounds whose whole blocks emit `mean` tokens on average.

    A round that accepts A drafts has a weight of e^(tilt A). Rounds of one A are equals: those kept
    are spread evenly over them. Where that asks for a round more than once, the answers are gone
    through several times, and each time others are kept.

    Args:
        trace: answers with A_D at every position.
        mean: tokens a round, A + 1.
        positions: of the result, give or take a round.
        phase: from 0 to 1; with another one, other equals are kept.

    Raises:
        RequestError: no choice of these rounds has such a mean.
    """
    starts = trace.walk(trace.drafts + 1)
    starts = starts[trace.whole[starts]]  # the end of an answer cuts its last round
    accepted = trace.accepted[starts].astype(np.int64)
    tilt = _tilt(accepted, mean - 1)
    weights = _weights(accepted, tilt)
    shares = weights * (positions / mean / weights.sum())
    choices = [_kept(accepted, shares, phase + i * APART) for i in range(PHASES)]
    kept = min(choices, key=lambda c: abs(accepted[c].mean() + 1 - mean))
    found = _joined(trace, starts[kept], tilt, len(starts))
    if abs(found.mean / mean - 1) > NEAR:
        raise RequestError(
            f"{len(starts)} rounds thinned to {len(kept)} emit {found.mean:.3f} tokens a round; "
            f"{mean} were asked for. Record more answers, or ask for more positions."
        )
    return found


def _tilt(accepted: Ints, mean: float) -> float:
    """The tilt at which kept rounds accept `mean` drafts, by bisection: the mean only rises."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        weights = _weights(accepted, middle)
        short = weights @ accepted < mean * weights.sum()
        low, high = (middle, high) if short else (low, middle)
    return (low + high) / 2


def _weights(accepted: Ints, tilt: float) -> Floats:
    """[R], the largest 1."""
    power = tilt * accepted
    weights: Floats = np.exp(power - power.max())
    return weights


def _kept(accepted: Ints, shares: Floats, phase: float) -> Ints:
    """Indices of the kept rounds: turn by turn through the answers, in order.

    Rounds are lined up by A and, of one A, in order; one is kept wherever the sum of shares passes
    a whole number. Each turn takes its part of the shares, and begins at another fraction.
    """
    turns = max(1, ceil(shares.max()))
    order = np.argsort(accepted, kind="stable")
    sums = np.concatenate(([0.0], np.cumsum(shares[order]))) / turns
    picked = []
    for turn in range(turns):
        passed = np.floor(sums + (phase + turn / turns) % 1)
        picked.append(np.sort(order[passed[1:] > passed[:-1]]))
    return np.concatenate(picked)


def _joined(trace: Trace, starts: NDArray[np.intp], tilt: float, rounds: int) -> Thinned:
    """The positions of rounds that begin at `starts`, end to end."""
    lengths = trace.accepted[starts].astype(np.int64) + 1
    ends = np.cumsum(lengths)
    begins = ends - lengths
    part = trace.take(np.repeat(starts - begins, lengths) + np.arange(ends[-1]))
    one = replace(part, prompt=np.zeros_like(part.prompt), left=_countdown(len(part)))
    return Thinned(one, begins, tilt, rounds, len(np.unique(starts)))


def _countdown(n: int) -> NDArray[np.int32]:
    return np.arange(n, 0, -1, dtype=np.int32)
