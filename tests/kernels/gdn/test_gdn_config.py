from __future__ import annotations

import pytest

from hybridspec.kernels.gdn.config import GDNConfig


@pytest.mark.parametrize(
    ("dv", "dk", "expected"),
    [(128, 128, GDNConfig(32, 4)), (32, 32, GDNConfig(32, 1)), (13, 7, GDNConfig(16, 1))],
)
def test_the_cut_of_known_sizes(dv, dk, expected):
    assert GDNConfig.choose(dv, dk) == expected
