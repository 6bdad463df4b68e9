"""The bounds of a paired difference, against the paper's figures and a search of our own."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import minimize_scalar

from hybridspec.bench.paired import Paired, Z, least_questions

PAPER = Paired(both=1258, neither=41, only_baseline=11, only_system=9)


def test_the_papers_gsm8k_run():
    """Appendix D.3 and E.4: 1,267 and 1,269 of 1,319, 9 and 11 of them alone."""
    assert PAPER.questions == 1319
    assert round(100 * PAPER.difference, 2) == -0.15
    assert round(100 * PAPER.bound, 2) == -0.71
    assert PAPER.not_inferior(0.01)
    assert not PAPER.not_inferior(0.007)


@pytest.mark.parametrize("counts", [(9, 11, 1319), (0, 3, 50), (4, 0, 30), (7, 2, 20), (1, 1, 400)])
def test_the_score_bound_is_where_the_score_test_stops_rejecting(counts):
    """At the bound the counts are z standard deviations above what it expects, the share of
    questions right by the baseline alone being the likeliest one there."""
    b, c, n = counts
    d = Paired(n - b - c, 0, c, b).score_bound

    def unlikely(q):
        shares = ((b, q + d), (c, q), (n - b - c, 1 - 2 * q - d))
        return -sum(k * math.log(max(p, 1e-300)) for k, p in shares if k)

    limits = (max(0.0, -d), (1 - d) / 2)
    q = minimize_scalar(unlikely, bounds=limits, method="bounded", options={"xatol": 1e-12}).x
    score = (b - c - n * d) / math.sqrt(n * (2 * q + d - d * d))
    # the search finds q to about the root of float64's resolution
    assert score == pytest.approx(Z, rel=1e-5)


def test_without_a_disagreement_few_questions_show_nothing():
    same = Paired(0, 7, 0, 0)
    assert same.bound == same.difference == 0
    assert same.score_bound == pytest.approx(-(Z**2) / (7 + Z**2))
    assert not same.not_inferior(0.01)


def test_the_least_questions_are_just_enough():
    least = least_questions(0.01)
    assert Paired(least, 0, 0, 0).not_inferior(0.01)
    assert not Paired(least - 1, 0, 0, 0).not_inferior(0.01)


def test_a_worse_system_is_not_passed():
    assert not Paired(900, 50, 40, 10).not_inferior(0.01)
    assert Paired(900, 50, 10, 40).not_inferior(0.01)


def test_every_question_lost():
    lost = Paired(0, 0, 5, 0)
    assert lost.difference == lost.bound == -1
    assert lost.score_bound == pytest.approx(-1)
