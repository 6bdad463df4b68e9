"""Sampling parameters: what is taken, and what is refused by name."""

from __future__ import annotations

import pytest

from hybridspec.core import SamplingParams
from hybridspec.errors import RequestError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", None),
        ("temperature", "3"),
        ("top_k", True),
        ("seed", 0.0),
        ("seed", ""),
        ("stop", "END"),
        ("stop", (1,)),
        ("stop", iter(["x"])),
        ("stop_token_ids", 5),
        ("stop_token_ids", ("x",)),
        ("max_tokens", 2.5),
    ],
)
def test_another_type_is_refused_by_name(field, value):
    with pytest.raises(RequestError, match=f"^{field} is .*; expected"):
        SamplingParams(**{field: value})


def test_a_list_given_is_copied():
    stops = ["a"]
    params = SamplingParams(stop=stops)  # type: ignore[arg-type]
    stops.append("b")
    assert params.stop == ("a",)
    assert hash(params)
