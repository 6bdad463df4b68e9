"""What the target says of a proposal, in plain Python: the law that `accept.py` must obey."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from torch import Tensor

from hybridspec.runtime import sampling

GOES_ON, STOP, LENGTH, DAMAGED = 0, 1, 2, 3  # values of `done`


@dataclass(frozen=True)
class Verdict:
    """accepted: A leading drafts equal the target's tokens. emitted: the tokens that are kept.
    done: one of the values above."""

    accepted: int
    emitted: tuple[int, ...]
    done: int


def accept(inputs: Tensor, y: Tensor, w: int, room: int, stops: Collection[int]) -> Verdict:
    """A round's end.

    Args:
        inputs: [>= w] int64, the anchor and drafts. y: [>= w] int64, the target's tokens, -1 where
            logits were no numbers.
        w: inputs that were verified, 1 or more. room: tokens that may still be emitted, 1 or more.
        stops: ids that end the answer; one of them is kept.
    """
    if bool((y[:w] < 0).any()):
        return Verdict(0, (), DAMAGED)
    accepted = int(sampling.accept(inputs[1:w], y[:w]))
    emitted = []
    for token in y[: accepted + 1].tolist():
        emitted.append(token)
        if token in stops:
            return Verdict(accepted, tuple(emitted), STOP)
        if len(emitted) == room:
            return Verdict(accepted, tuple(emitted), LENGTH)
    return Verdict(accepted, tuple(emitted), GOES_ON)
