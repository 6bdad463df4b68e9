"""From the residual stream to tokens in plain torch: the law that `head.py` must obey."""

from __future__ import annotations

import torch
from torch import Tensor


def choose(logits: Tensor) -> Tensor:
    """logits [T, V] -> the likeliest token of every row, [T] int64, ties to the lowest id.

    -1 where a row has no finite largest logit: a NaN, an infinity, nothing but minus infinity.
    """
    top = logits.amax(-1, keepdim=True)
    first = (logits == top).long().argmax(-1)
    return torch.where(top[:, 0].isfinite(), first, -1)


def score(logits: Tensor) -> tuple[Tensor, Tensor]:
    """logits [T, V] -> the likeliest token's probability and the entropy in nats, both [T].

    0 and 0 where `choose` finds no token. A token of probability 0 adds nothing to the entropy.
    """
    known = logits.amax(-1).isfinite()
    logp = logits.log_softmax(-1)
    p = logp.exp()
    entropy = -torch.where(p > 0, p * logp, torch.zeros_like(p)).sum(-1)
    confidence, nothing = logp.amax(-1).exp(), torch.zeros_like(entropy)
    return torch.where(known, confidence, nothing), torch.where(known, entropy, nothing)
