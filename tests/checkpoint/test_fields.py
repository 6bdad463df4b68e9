from __future__ import annotations

import pytest

from hybridspec.checkpoint.fields import Fields, agreed
from hybridspec.errors import CheckpointError


@pytest.mark.parametrize("value", [0, -1, 1.5, "8", True, [8], None, 2**63])
def test_integer_names_the_field_and_what_was_expected(value):
    with pytest.raises(CheckpointError, match=r"here: size is .*; expected an integer from 1 to"):
        Fields({"size": value}, "here").integer("size")


@pytest.mark.parametrize("value", [0, -1, "8", True, float("nan"), float("inf"), None])
def test_number_must_be_positive_and_finite(value):
    with pytest.raises(CheckpointError, match=r"eps is .*; expected a positive number"):
        Fields({"eps": value}, "here").number("eps")


@pytest.mark.parametrize("value", [[], [1, "2"], [-1], 3, [True], None])
def test_integers_must_be_a_list_of_them(value):
    with pytest.raises(CheckpointError, match=r"taps is .*; expected a list of integers"):
        Fields({"taps": value}, "here").integers("taps")


def test_null_counts_as_absent():
    fields = Fields({"size": None}, "here")
    assert "size" not in fields
    assert fields.integer("size", 7) == 7
    fields.only("size", 3)


def test_two_places_may_agree_but_not_differ():
    top, nested = Fields({"size": 4}, "top"), Fields({"size": 4}, "nested")
    assert agreed("size", (nested, top)) is nested
    other = Fields({"size": 8}, "other")
    with pytest.raises(CheckpointError, match="size is 4 in top but 8 in other"):
        agreed("size", (top, other))
