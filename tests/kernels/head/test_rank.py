"""The integers that order logits and tokens."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from hybridspec.kernels.head.rank import is_finite, rank, token_of, value_of

# ascending; equals side by side
VALUES = [
    -math.inf,
    -3e38,
    -1.0,
    -1e-45,
    -0.0,
    0.0,
    1e-45,
    2.5,
    3e38,
    math.inf,
    math.nan,
    -math.nan,
]
NUMBERS = VALUES[:10]


@triton.jit
def _ranks(x, token, ranks, values, tokens, finite, N: tl.constexpr):
    at = tl.arange(0, N)
    made = rank(tl.load(x + at), tl.load(token + at))
    tl.store(ranks + at, made)
    tl.store(values + at, value_of(made))
    tl.store(tokens + at, token_of(made))
    tl.store(finite + at, is_finite(value_of(made)).to(tl.int32))


def ranked(values: list[float], tokens: list[int], device) -> list[torch.Tensor]:
    x = torch.tensor(values + [0.0] * (16 - len(values)), device=device)
    token = torch.tensor(tokens + [0] * (16 - len(tokens)), dtype=torch.int32, device=device)
    whole = [torch.zeros(16, dtype=torch.int64, device=device) for _ in range(3)]
    value = torch.zeros(16, device=device)
    _ranks[(1,)](x, token, whole[0], value, whole[1], whole[2], 16)
    return [t[: len(values)].cpu() for t in (whole[0], value, whole[1], whole[2])]


def test_a_larger_number_is_above_and_not_a_number_on_top(device):
    ranks, values, tokens, finite = ranked(VALUES, [5] * len(VALUES), device)
    steps = ranks.diff()
    assert (steps >= 0).all()
    equal = [i for i, s in enumerate(steps.tolist()) if s == 0]
    assert equal == [4, 10]  # -0 and 0; the two NaN
    assert values[:10].tolist() == torch.tensor(NUMBERS).tolist()
    assert values[10:].isnan().all()
    assert tokens.tolist() == [5] * len(VALUES)
    assert finite.tolist() == [int(math.isfinite(v)) for v in VALUES]


def test_of_equals_the_lower_token_is_above(device):
    for value in (-math.inf, -2.0, 0.0, 3.0, math.nan):
        tokens = [0, 1, 77, 248319, 2**31 - 1]
        ranks, _, back, _ = ranked([value] * 5, tokens, device)
        assert (ranks.diff() < 0).all()
        assert back.tolist() == tokens
