from __future__ import annotations

import numpy as np
import pytest

from hybridspec.calibration.proxy import layer0_proxy


def made(n0, later):
    """[N, 3, W] counts whose later layers add up to `later`, after an anchor row of 99."""
    n0, later = np.array(n0), np.array(later)
    new = np.stack([n0, later // 2, later - later // 2], 1)
    return np.concatenate([np.full((len(n0), 3, 1), 99), new], 2)


def test_a_position_of_its_own_level_adds_nothing():
    """Later pairs are 3 n_0 plus the position's level, which rises while n_0's level falls."""
    n0 = np.array([[8, 1], [6, 3], [7, 2]])
    proxy = layer0_proxy(made(n0, 3 * n0 + [0, 500]))
    assert proxy.correlation == pytest.approx(1.0)
    assert proxy.slope == pytest.approx(3.0)
    assert proxy.tokens == 6


def test_correlation_and_slope_are_those_of_numpy():
    generator = np.random.default_rng(0)
    n0 = generator.integers(0, 9, (200, 5))
    later = 9 * n0 + generator.integers(0, 80, (200, 5))
    proxy = layer0_proxy(made(n0, later))
    x, y = (n0 - n0.mean(0)).ravel(), (later - later.mean(0)).ravel()
    assert proxy.correlation == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert proxy.slope == pytest.approx(np.polyfit(x, y, 1)[0])
    assert 0.5 < proxy.correlation < 0.9


def test_counts_that_never_vary_predict_nothing():
    assert layer0_proxy(made([[1, 2], [1, 2]], [[4, 5], [6, 7]])) is None
    assert layer0_proxy(made([[1, 2], [2, 3]], [[4, 5], [4, 5]])) is None
    assert layer0_proxy(np.ones((4, 3, 1), np.int64)) is None
