"""Calls of the sampling kernels on tensors without memory."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.sampling.adjust import Adjustment, adjust, count
from hybridspec.kernels.sampling.request import Request, Scratch
from hybridspec.kernels.sampling.sample import sample

META = "meta"


def empty(*shape: int, dtype: torch.dtype = torch.int32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def sampling(vocabulary: int) -> None:
    """Adjusted with and without a mask, drawn, counted."""
    logits, length = empty(16, vocabulary, dtype=torch.float32), empty()
    tokens, bad = empty(16, dtype=torch.int64), empty(16)
    what = Adjustment.empty(vocabulary, META)
    adjust(logits, length, tokens, what)
    adjust(logits, length, tokens, what, empty(16, -(-vocabulary // 32)))
    request, scratch = Request.empty(META), Scratch.empty(vocabulary, META)
    sample(logits, length, request, tokens, bad, scratch)
    count(tokens, length, what)
