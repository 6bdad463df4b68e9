"""What a round's launches write between the passes: one set serves all systems."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.kernels.accept.accept import NO_TOKEN, stop_table
from hybridspec.kernels.head.head import Answer
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sampling.request import Request, Scratch
from hybridspec.runtime.device.numbers import Numbers

STOPS = 64  # most stop ids of a request: a kernel compares sixteen tokens with all of them


class Memory(NamedTuple):
    """answer: the drafter's; its tokens [16] int64, the anchor and the drafts, are the target's
    inputs. prefix [16] fp64: of the length's rule. tokens [16] int64 and bad [16] int32: the
    target's own tokens and rows without one. emitted [16] int64: what is kept of them. stops [64]
    int64: the request's stop ids."""

    numbers: Numbers
    answer: Answer
    prefix: Tensor
    request: Request
    scratch: Scratch
    tokens: Tensor
    bad: Tensor
    emitted: Tensor
    stops: Tensor

    @classmethod
    def empty(cls, vocabulary: int, device: torch.device) -> Memory:
        """Memory for a vocabulary."""
        return cls(
            Numbers.empty(device),
            Answer.empty(device),
            torch.zeros(ROWS, dtype=torch.float64, device=device),
            Request.empty(device),
            Scratch.empty(vocabulary, device),
            torch.zeros(ROWS, dtype=torch.int64, device=device),
            torch.zeros(ROWS, dtype=torch.int32, device=device),
            torch.full((ROWS,), NO_TOKEN, dtype=torch.int64, device=device),
            stop_table([], STOPS, device),
        )
