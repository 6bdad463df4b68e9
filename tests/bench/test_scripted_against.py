"""Ours against SGLang: ratios by hand, and when they do not compare."""

from __future__ import annotations

import pytest

from bench.scripted_documents import beside
from hybridspec.bench.scripted import against


def said(document) -> str:
    return against.report(document | {"against": against.figures(document)})


def test_rounds_and_steps_are_ratios_of_times():
    modes = against.figures(beside())["modes"]
    assert modes["ar"]["rounds"]["ar"]["times_as_fast"] == pytest.approx(4.0 / 2.0)
    assert modes["dflash16"]["rounds"]["dflash"]["times_as_fast"] == pytest.approx(10.0 / 6.0)


def test_sglang_s_tokens_are_those_of_our_traces():
    tokens = against.figures(beside())["modes"]["dflash16"]["tokens_per_second"]
    assert tokens["acceptance_of"] == "dflash"
    assert tokens["categories"] == pytest.approx({"coding": 600.0, "math": 400.0})
    ours = tokens["ours_over_it"]["hybridspec"]
    # 4.5 tokens a round of 4 ms against 5 a round of 10 ms, in both categories
    assert (ours["mean"], ours["least"]) == pytest.approx((2.25, 2.25))
    plain = tokens["ours_over_it"]["ar"]
    assert plain["categories"] == pytest.approx({"coding": 500 / 600, "math": 500 / 400})
    assert plain["least"] == pytest.approx(500 / 600)


@pytest.mark.parametrize(
    ("distinct", "equal", "words"),
    [
        (50.0, True, "U = 50.0, ours 50.0: equal within 3%"),
        (51.0, True, "equal within"),
        (48.0, False, "U = 48.0, ours 50.0, +4.2%: NOT equal"),
        (55.0, False, "-9.1%: NOT equal"),
        (None, None, "were not counted"),
    ],
)
def test_times_compare_where_as_many_experts_are_read(distinct, equal, words):
    document = beside(distinct=distinct)
    assert against.figures(document)["modes"]["dflash16"]["distinct"]["equal"] is equal
    assert words in said(document)


def test_nothing_is_scaled_where_they_do_not():
    assert (
        against.figures(beside(distinct=40.0))["modes"]["dflash16"]["tokens_per_second"]
        == against.figures(beside())["modes"]["dflash16"]["tokens_per_second"]
    )


def test_drift_is_the_second_run_over_the_first_on_the_same_answers():
    document = beside()
    del document["again"]["systems"]["dflash"]
    for body in document["again"]["systems"].values():
        del body["categories"]["math"]
    found = against.drift(document)
    assert found is not None
    assert [*found] == ["ar", "hybridspec"]
    assert found["hybridspec"] == pytest.approx({"ms_per_round": 1.1, "tokens_per_second": 1 / 1.1})
    assert against.drift(document | {"again": None}) is None


def test_a_mode_without_a_system_of_ours_has_its_time_alone():
    document = beside()
    document["sglang"]["modes"] = {"dflash4": {"startup_s": 1.0, "ms_per_round": 7.0}}
    found = against.figures(document)["modes"]["dflash4"]
    assert (found["ms_per_round"], found["rounds"]) == (7.0, {})
    assert "tokens_per_second" not in found
    assert "SGLang dflash4: 7.000 ms a round, started in 1 s." in said(document)
