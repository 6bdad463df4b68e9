"""Times of rounds with a part twice or left out become times of parts, fits and tables."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from hybridspec.bench.scripted.clocks.components import (
    LEFT_OUT,
    LENGTHS,
    PARTS,
    SEAMS,
    WHOLE,
    Timed,
    as_profile,
    lines,
)
from hybridspec.bench.scripted.clocks.tables import tables
from hybridspec.bench.scripted.clocks.twice import TWICE
from hybridspec.bench.scripted.paper import TABLE_4

# ms of each part at length w, made up: growing and not.
MS: dict[str, Callable[[int], float]] = {
    "gdn": lambda w: 0.1 + 0.01 * w,
    "gdn projections": lambda w: 0.5,
    "attention": lambda w: 0.1,
    "attention projections": lambda w: 0.1,
    "moe": lambda w: 0.5 * w**0.5,
    "head": lambda w: 0.25,
    "acceptance": lambda w: 0.02,
    "commit": lambda w: 0.03,
    "seams": lambda w: 0.05,
    "drafter": lambda w: 0.8,
}


class Made(Timed):
    """Rounds whose times are made up: a card that slows down from input to input."""

    def __init__(self) -> None:
        self.w, self.slower = 0, 1.0

    def begin(self, w, tokens):
        self.w, self.slower = w, 1.0 + 0.1 * int(tokens[0])

    def distinct(self):
        return 8.0 * self.slower

    def time(self, name):
        whole = sum(ms(self.w) for ms in MS.values())
        part = MS[name](self.w) if name in MS else 0.0
        return self.slower * (whole + (part if name in TWICE else -part))


@pytest.fixture
def rows():
    inputs = torch.arange(3)[:, None].expand(3, 16)
    return [Made().row(w, inputs) for w in LENGTHS]


def test_parts_and_seams_are_found_and_make_a_round(rows):
    assert {*MS} == {*PARTS}
    for row in rows:
        for name, ms in MS.items():
            assert row["parts_ms"][name]["median"] == pytest.approx(1.1 * ms(row["w"]))
            assert row["parts_ms"][name]["low"] == pytest.approx(ms(row["w"]))
        total = sum(part["median"] for part in row["parts_ms"].values())
        assert row["round_ms"]["median"] == pytest.approx(total)
        assert row["distinct"] == pytest.approx(8.8)
        assert row["kept"] == -(-row["w"] // 2)


def test_a_card_that_drifts_is_taken_at_its_mean():
    class Drifting(Made):
        calls = 0

        def time(self, name):
            self.calls += 1
            middle = len(TWICE) + len(LEFT_OUT) + 3  # twice the place of the middle call
            return super().time(name) + 1e-3 * (2 * self.calls - middle) * (name == WHOLE)

    row = Drifting().row(4, torch.zeros(1, 16, dtype=torch.int64))
    assert row["parts_ms"]["commit"]["median"] == pytest.approx(MS["commit"](4))


def test_what_is_twice_adds_and_what_is_left_out_takes_away(rows):
    made = Made()
    made.begin(4, torch.zeros(16))
    whole = made.time(WHOLE)
    assert all(made.time(name) > whole for name in TWICE)
    assert all(made.time(name) < whole for name in LEFT_OUT)
    assert SEAMS not in (*TWICE, *LEFT_OUT)


def test_lines_and_growth(rows):
    found = lines(rows)
    gdn = found["gdn"]
    assert (gdn["a"], gdn["b"]) == (pytest.approx(0.11), pytest.approx(0.011))
    assert gdn["growth"] == pytest.approx(0.26 / 0.11 - 1)
    assert found["moe"]["growth"] == pytest.approx(3)
    assert found["head"]["b"] == pytest.approx(0)


def test_it_is_the_profile_s_form_too(rows):
    found = as_profile(rows)
    (fit, *_) = found["paper_fits"]
    assert fit["gdn"]["b"] == pytest.approx(0.011)
    assert fit["moe"]["d"] == pytest.approx(0.5)
    assert found["paper_growth"]["moe"] == pytest.approx(1)
    target = found["paper_rows"][0]["target_ms"]["median"]
    assert target == pytest.approx(1.1 * sum(MS[p](1) for p in PARTS if p != "drafter"))


def test_a_negative_start_has_no_growth(rows):
    rows[0]["parts_ms"]["acceptance"]["median"] = -0.001
    assert lines(rows)["acceptance"]["growth"] is None


def test_the_table_has_the_paper_s_beside(rows):
    part = {"rows": rows, "lines": lines(rows)} | as_profile(rows)
    said = tables({"components": part})
    assert "w = 16, in brackets the paper's Table 4: target" in said
    assert "MoE 2.20 (10.19)" in said
    assert "From w = 4 to 16" in said
    assert "gdn projections" in said


def test_the_paper_s_table_adds_up():
    """But for overlaps, as it says."""
    for total, *parts in TABLE_4.values():
        assert sum(parts) == pytest.approx(total, rel=0.01)


def test_variants_put_everything_back():
    made = Made()
    made.run = SimpleNamespace(again=SimpleNamespace(twice=""), commits=True)
    seen = []
    for name in (WHOLE, "moe", "commit", "drafter"):
        with made.other(name):
            seen.append((made.run.again.twice, made.run.commits))
        assert (made.run.again.twice, made.run.commits) == ("", True)
    assert seen == [("", True), ("moe", True), ("", False), ("", True)]
