from __future__ import annotations

import pytest

from hybridspec.bench.profile_setup import lengths
from hybridspec.errors import RequestError


def test_a_block_bounds_the_lengths():
    assert lengths(None, 8) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert lengths((2, 8), 8) == (2, 8)
    with pytest.raises(RequestError, match="names 9; the drafter's block allows at most 8 inputs"):
        lengths((2, 9), 8)
