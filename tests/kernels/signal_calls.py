"""The small kernels of a run on the device, as `kernel_calls.py` has the others."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from hybridspec.runtime.device import signals
from hybridspec.runtime.device.numbers import Numbers


def run() -> None:
    """Blocks as long as the drafts wanted, and whole ones."""
    numbers = Numbers.empty(torch.device("meta"))
    tokens = torch.empty(16, dtype=torch.int64, device="meta")
    flag = torch.empty(1, dtype=torch.int32, device="meta")
    bad, words = flag.expand(16), tokens.expand(64, 16)
    ring = SimpleNamespace(abort=flag, words=words, rounds=64)
    signals.arm(numbers, 32)
    signals.lose(numbers)
    signals.settle(numbers)
    signals.mark(numbers, bad, tokens)
    for whole in (0, 16):
        signals.emit(numbers, tokens, tokens[:1], ring, 15, whole)
