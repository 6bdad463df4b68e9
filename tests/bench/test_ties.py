"""How far logits must move: against moving them."""

from __future__ import annotations

import pytest
import torch

from hybridspec.bench.ties import BIT_FOR_BIT, bound, turn
from hybridspec.core import SamplingParams
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.sampling import target_tokens

POSITION = torch.tensor([40])


def chosen(row, params):
    return int(target_tokens(row[None], POSITION, params, params.seed or 0)[0])


def moved(row, found, params, e):
    """The logits that favour `found` most, each moved by at most e."""
    best = []
    for edge in range(len(row) + 1):
        for sign in (-e, e):
            shift = torch.full_like(row, sign)
            shift[edge:] = -sign
            best.append(row + shift)
    if params.greedy:
        shift = torch.full_like(row, -e)
        shift[found] = e
        best = [row + shift]
    return any(chosen(r, params) == found for r in best)


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_turn_is_just_enough(temperature, seed):
    row = torch.randn(12, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    params = SamplingParams(temperature=temperature, seed=seed if temperature else None)
    own = chosen(row, params)
    assert turn(row, own, params, seed, 40) == 0
    for found in range(12):
        e = turn(row, found, params, seed, 40)
        if found != own:
            assert e > 0
            assert moved(row, found, params, e * 1.001)
            assert not moved(row, found, params, e * 0.999)


def test_bounds():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    bounds = {v: bound(v, cpu, torch.float32) for v in VERIFY}
    assert bounds == {v: 0.0 if v in BIT_FOR_BIT else 0.01 for v in VERIFY}
    assert bound("exact", gpu, torch.float32) == 0.01
    assert bound("exact", gpu, torch.bfloat16) == 0.25
