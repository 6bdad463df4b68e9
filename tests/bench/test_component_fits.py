"""The paper's Table 4 leads to the paper's own fits, growth and ratios."""

from __future__ import annotations

import pytest

from bench.paper_table import TABLE, samples
from hybridspec.bench.component_fits import curve, fits, growth, latency_of_pairs, rows, spread
from hybridspec.bench.component_times import Samples


def rounded(values, digits):
    return {name: round(value, digits) for name, value in values.items()}


def test_the_papers_fits_follow_from_its_table():
    (fit,) = fits(rows(samples()))
    assert fit["lengths"] == list(TABLE)
    gdn, moe = fit["gdn"], fit["moe"]
    assert [f"{gdn['a']:.2f}", f"{gdn['b']:.3f}", f"{gdn['r2']:.3f}"] == ["1.89", "0.154", "0.999"]
    assert [f"{moe['c']:.2f}", f"{moe['d']:.2f}", f"{moe['r2']:.3f}"] == ["2.66", "0.50", "0.976"]


def test_the_papers_growth_and_ratios_follow_from_its_table():
    table = rows(samples())
    shares = growth(table)
    assert (shares.pop("from"), shares.pop("to")) == (4, 16)
    percent = rounded({name: 100 * share for name, share in shares.items()}, 1)
    # The target's 71.3% in the paper is of a union of overlapping intervals.
    wanted = {"gdn": 74.1, "moe": 91.1, "attention": 5.7, "other": 4.5, "drafter": 3.4}
    assert percent == {"target": 71.3, **wanted}
    ratios = {row["w"]: round(row["target_to_drafter"], 1) for row in table}
    assert (ratios[4], ratios[8], ratios[16]) == (5.3, 7.0, 8.8)


def test_a_row_says_what_was_timed():
    row = rows(samples())[0]
    assert (row["w"], row["calls"], row["distinct_pairs"]) == (4, 1, 400)
    assert row["target_ms"]["median"] == pytest.approx(sum(TABLE[4]))
    assert row["overhead"] == pytest.approx(0.01)


def made(lengths, drafter=True):
    """Samples of made-up times at some lengths."""
    out = Samples()
    for w in lengths:
        out.components[w].append({"gdn": 1.0 + w, "moe": 2.0 * w, "attention": 1.0, "other": 1.0})
        out.whole[w].append(4.0 + 3 * w)
        out.pairs[w].append(w)
        if drafter and w > 1:
            out.drafter[w].append(1.0)
    return out


def test_fits_see_the_lengths_from_two_and_from_four():
    two, four = fits(rows(made((1, 2, 3, 4, 8, 16))))
    assert (two["lengths"], four["lengths"]) == ([2, 3, 4, 8, 16], [4, 8, 16])
    assert two["gdn"]["a"] == pytest.approx(1.0)
    assert two["moe"]["d"] == pytest.approx(1.0)
    assert curve(two, "gdn", [5.0]) == pytest.approx([6.0])
    assert curve(two, "moe", [5.0]) == pytest.approx([10.0])


def test_few_lengths_have_no_fit_and_one_no_growth():
    assert fits(rows(made((1, 2, 3)))) == []
    assert growth(rows(made((1, 4)))) is None


@pytest.mark.parametrize(
    ("lengths", "ends"),
    [((1, 2, 6), (2, 6)), ((4, 6, 8), (4, 8)), ((2, 3, 4), (2, 4)), ((2, 4, 16), (4, 16))],
)
def test_growth_is_between_the_papers_lengths_or_the_ends(lengths, ends):
    shares = growth(rows(made(lengths)))
    assert (shares["from"], shares["to"]) == ends
    assert shares["moe"] == pytest.approx(ends[1] / ends[0] - 1)
    assert shares["attention"] == 0


def test_plain_decoding_has_no_drafter():
    row = rows(made((1, 2)))[0]
    assert row["drafter_ms"] is None
    assert row["target_to_drafter"] is None


def test_a_part_that_takes_no_time_has_neither_fit_nor_growth():
    parts = made((2, 3, 4))
    for (each,) in parts.components.values():
        each["gdn"] = each["attention"] = 0.0
    table = rows(parts)
    assert [fit["gdn"] for fit in fits(table)] == [None]
    assert growth(table)["attention"] is None


def test_a_spread_is_median_quartiles_and_mean():
    assert spread([4.0, 1.0, 2.0, 3.0, 10.0]) == {
        "median": 3.0,
        "low": 2.0,
        "high": 4.0,
        "mean": 4.0,
    }


def test_times_that_follow_the_pairs_correlate():
    found = Samples()
    found.whole[4].extend([9.0, 1.0])  # another length says nothing
    found.pairs[4].extend([1, 2])
    found.whole[16].extend([2.0, 4.0, 6.0, 8.5])
    found.pairs[16].extend([10, 20, 30, 40])
    told = latency_of_pairs(found)
    assert (told["w"], told["calls"]) == (16, 4)
    assert told["correlation"] == pytest.approx(107.5 / (500 * 23.1875) ** 0.5)  # by hand


def test_times_or_pairs_that_never_vary_correlate_with_nothing():
    found = Samples()
    found.whole[16].extend([2.0, 2.0])
    found.pairs[16].extend([10, 20])
    assert latency_of_pairs(found) is None
