"""The acceptance model's parts against numpy and by hand."""

from __future__ import annotations

import math

import numpy as np
import torch

from hybridspec.policy.acceptance import (
    AcceptanceModel,
    IsotonicCurves,
    features,
    mean_entropy_before,
)

X = torch.tensor([[0.0, 0.5, 1.0], [0.2, 0.6, 0.6]], dtype=torch.float64)
Y = torch.tensor([[0.1, 0.3, 0.9], [0.2, 0.8, 0.8]], dtype=torch.float64)


def test_curves_are_linear_between_knots_and_flat_beyond():
    c = torch.rand(200, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours = IsotonicCurves(X, Y)(c)
    expected = [np.interp(c[:, i], X[i], Y[i]) for i in range(2)]
    np.testing.assert_allclose(ours, np.stack(expected, 1), atol=1e-12)  # float64 rounding
    assert IsotonicCurves(X, Y)(torch.tensor([0.25], dtype=torch.float64)).tolist() == [0.2]


def test_the_moving_average_by_hand():
    h = torch.tensor([2.0, 4.0, 8.0])
    # hbar_0 = h_1 = 2, hbar_1 = (2 + 2) / 2, hbar_2 = (4 + 2) / 2
    assert mean_entropy_before(h).tolist() == [2.0, 2.0, 3.0]


def test_features_by_hand():
    f = features(torch.tensor([0.8, 0.25]), torch.tensor([1.0, 0.0]), 15)
    four, third = math.log(4), math.log(1 / 3)
    expected = [
        [1, four, 1 / 15, four / 15, math.log(2), 0.0],
        [1, third, 2 / 15, third * 2 / 15, math.log1p(1e-6), math.log(1e-6)],
    ]
    torch.testing.assert_close(f, torch.tensor(expected), rtol=1e-5, atol=1e-7)  # float32


def test_prefix_is_the_product_and_fewer_drafts_change_nothing():
    weights = torch.tensor([0.3, 2.0, -1.0, 0.5, -0.2, -0.1], dtype=torch.float64)
    model = AcceptanceModel(IsotonicCurves(X, Y), weights)
    c, h = torch.tensor([0.7, 0.4]), torch.tensor([0.8, 1.6])
    p = model.prefix(c, h)
    assert torch.allclose(p, model.conditional(c, h).cumprod(-1))
    assert torch.equal(model.prefix(c[:1], h[:1]), p[:1])
    assert model.block == 2
