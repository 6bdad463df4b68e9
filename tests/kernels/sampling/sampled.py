"""The kernels on rows of logits, and which of the law's draws hang on a rounding."""

from __future__ import annotations

import torch

from hybridspec.kernels.sampling import naive
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.kernels.sampling.request import Request, Scratch
from hybridspec.kernels.sampling.sample import sample

SMALL = SampleConfig(512, 16)  # one program a row of the vocabularies here
UNTOUCHED = -7


def logits_of(rows, vocabulary, scale=2.0, seed=0):
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * scale


def run(logits, params, device, seed=1, position=0, length=None, config=SMALL):
    """Tokens and `bad` of up to 16 rows [w, V]; rows beyond them are NaN."""
    w, vocabulary = logits.shape
    padded = torch.full((16, vocabulary + 3), torch.nan, dtype=logits.dtype, device=device)
    padded[:w, :vocabulary] = logits
    request, scratch = Request.empty(device), Scratch.empty(vocabulary, device, config)
    request.set(params, seed, position)
    for name in ("tops", "groups", "sums", "peak", "floor", "values", "ids"):
        t = getattr(scratch, name)
        t.fill_(torch.nan if t.is_floating_point() else 2**31 - 1)
    tokens = torch.full((16,), UNTOUCHED, dtype=torch.int64, device=device)
    bad = torch.full((16,), UNTOUCHED, dtype=torch.int32, device=device)
    scalar = torch.tensor(w if length is None else length, dtype=torch.int32, device=device)
    sample(padded[:, :vocabulary], scalar, request, tokens, bad, scratch, config)
    assert not scratch.arrived.any()
    assert not scratch.count.any()
    return tokens.cpu(), bad.cpu()


def run_many(logits, params, device, seed=1, config=SMALL):
    """Tokens [n] of n rows at positions 0..n-1, 16 at a time."""
    made = []
    for start in range(0, len(logits), 16):
        block = logits[start : start + 16]
        made.append(run(block, params, device, seed, start, config=config)[0][: len(block)])
    return torch.cat(made)


def undecided(logits, params, seed):
    """[n] bool: rows at positions 0..n-1 where the masses' rounding decides."""
    return naive.undecided(logits, torch.arange(len(logits)), params, seed, naive.ERROR)
