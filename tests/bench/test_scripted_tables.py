"""Answers added up."""

from __future__ import annotations

import pytest

from hybridspec.bench.scripted.answers import Answer
from hybridspec.bench.scripted.tables import Gain, Row, figures, table
from hybridspec.core import RoundStats


def answer(seconds: float, *lengths: int) -> Answer:
    """Rounds that keep all but one of their inputs, at least one."""
    rounds = tuple(RoundStats(w, max(w - 2, 0), max(w - 1, 1)) for w in lengths)
    return Answer((0,) * sum(r.committed for r in rounds), rounds, seconds, {})


PLAIN = {"coding": Row.of([answer(6.0, *[1] * 6)]), "math": Row.of([answer(2.0, 1, 1)])}
OURS = {"coding": Row.of([answer(1.0, 4), answer(1.0, 2, 3)]), "math": Row.of([answer(1.0, 3)])}


def test_answers_are_pooled_and_categories_averaged():
    found = figures({"ar": PLAIN, "ours": OURS})["ours"]
    coding, math = found["categories"].values()
    assert (coding["tokens"], coding["rounds"], coding["seconds"]) == (6, 3, 2.0)
    assert coding["lengths"] == {2: 1, 3: 1, 4: 1}
    assert (coding["acceptance_length"], coding["mean_w"]) == (2, 3)
    assert coding["ms_per_round"] == pytest.approx(2000 / 3)
    assert (coding["tokens_per_second"], coding["speedup"]) == (3, 3)
    assert (math["speedup"], found["mean"]["speedup"]) == (2, 2.5)
    assert found["mean"]["acceptance_length"] == 2


def test_the_table_has_a_line_a_system():
    lines = table(figures({"ar": PLAIN, "ours": OURS})).splitlines()
    assert lines[0].split(" | ")[:4] == ["| system", "coding", "math", "Avg."]
    assert lines[2].startswith("| `ar` | 1.00 1.00x | 1.00 1.00x | 1.00 1.00x | 1.00 |")
    assert lines[3].startswith("| `ours` | 2.00 3.00x | 2.00 2.00x | 2.00 2.50x | 3.00 |")


def test_a_gain_is_paired():
    base = {"coding": Row(6, (1.0, 10.0, 3.0), {1: 6})}
    faster = {"coding": Row(6, (0.8, 8.0, 2.4), {1: 6})}
    gain = Gain.of(faster, base)
    # every answer takes 0.8 times as long, so no choice of answers says otherwise
    assert (gain.value, gain.low, gain.high) == pytest.approx((1.25, 1.25, 1.25))
    mixed = Gain.of({"coding": Row(6, (0.8, 12.0, 2.4), {1: 6})}, base)
    assert mixed.value == pytest.approx(14 / 15.2)
    assert mixed.low < mixed.value < mixed.high
    assert mixed.answers == 3
    assert "0.921 times" in mixed.line()
