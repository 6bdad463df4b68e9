from __future__ import annotations

import pytest

from bench.synthetic import synthetic_results
from hybridspec.bench.tables import (
    main_table,
    plain,
    rounds_table,
    speed_table,
    speeds_table,
    speedups_table,
    tables,
)


def under_heads(table, row):
    return dict(zip(table.header, table.rows[row], strict=True))


def test_table_1_has_al_and_sr_side_by_side(tmp_path):
    results = synthetic_results(tmp_path)
    table = main_table(results)
    assert table.header == ("system", "coding", "math", "rag", "Avg.", "pooled")
    assert table.rows[0] == ("prompts", "3", "3", "3", "9", "9")
    ours = results["systems"]["static:5"]
    row = under_heads(table, 2)
    part = ours["categories"]["math"]
    assert row["system"] == "static:5"
    times = f"{part['speedup']['value']:.2f}x"
    assert row["math"] == f"{part['mean_acceptance_length']:.2f} {times}"
    average = ours["averages"]
    assert row["Avg."] == (f"{average['acceptance_length']:.2f} {average['speedup']['value']:.2f}x")
    pooled = f"{ours['mean_acceptance_length']:.2f} {ours['speedup']['value']:.2f}x"
    assert row["pooled"] == pooled
    assert under_heads(table, 1)["Avg."] == "1.00 1.00x"


def test_rounds_stand_under_their_heads(tmp_path):
    results = synthetic_results(tmp_path)
    ours = results["systems"]["static:5"]
    row = under_heads(rounds_table(results), 1)
    assert row["AL"] == f"{ours['mean_acceptance_length']:.2f}"
    assert row["w"] == f"{ours['mean_verification_length']:.2f}"
    assert float(row["drafts"]) == pytest.approx(ours["mean_verification_length"] + 1, abs=0.005)
    assert row["unverified"] == "2.00"
    assert row["missed"] == "0.0%"
    assert row["AL gap"] == f"{ours['al_gap_share']:.1%}"
    assert row["median"] == "15.00"  # 10 + w at w = 5
    assert row["ms/round"] == f"{1e3 * ours['round_seconds']:.2f}"


def test_speeds_stand_under_their_heads(tmp_path):
    results = synthetic_results(tmp_path, repeats=2)
    table = speed_table(results)
    ours = results["systems"]["static:5"]
    _, speed, _, pooled, within, average, _, _, tokens, reasons = table.rows[1]
    assert speed == f"{ours['tokens_per_second']['median']:.1f}"
    assert pooled == f"{ours['speedup']['value']:.2f}"
    assert within == f"{ours['speedup']['low']:.2f}-{ours['speedup']['high']:.2f}"
    assert average == f"{ours['averages']['speedup']['value']:.2f}"
    assert (tokens, reasons) == (str(9 * 41 * 2), "0/18")
    assert table.rows[0][3:7] == ("1", "-", "1", "-")  # the baseline against itself


def test_the_parts_of_a_speedup_stand_beside_it(tmp_path):
    """No answer here is cut in a round: acceptance length over round cost is the speed-up."""
    results = synthetic_results(tmp_path)
    row = under_heads(rounds_table(results), 1)
    # three figures of two decimals each
    parts = float(row["AL"]) / float(row["x ar"])
    assert parts == pytest.approx(results["systems"]["static:5"]["speedup"]["value"], rel=0.01)


def test_every_system_has_its_speed_in_every_category(tmp_path):
    systems = ("ar", *(f"static:{w}" for w in range(2, 17)), "dflash")
    results = synthetic_results(tmp_path, systems)
    speeds = speeds_table(results)
    assert speeds.header == ("system", "all", "coding", "math", "rag")
    for name, row in zip(systems, speeds.rows, strict=True):
        s = results["systems"][name]
        sets = [s, *s["categories"].values()]
        assert row == (name, *(f"{f['tokens_per_second']['median']:.1f}" for f in sets))


def test_intervals_have_a_row_a_category_and_their_averages(tmp_path):
    results = synthetic_results(tmp_path)
    table = speedups_table(results)
    assert table.header == ("category", "prompts", "static:5", "dflash")
    assert [row[0] for row in table.rows] == ["coding", "math", "rag", "Avg.", "pooled"]
    s = results["systems"]["static:5"]
    sets = [s["categories"]["coding"], s["averages"], s]
    for row, found in zip((table.rows[0], *table.rows[-2:]), sets, strict=True):
        v = found["speedup"]
        assert row[2] == f"{v['value']:.2f} ({v['low']:.2f}-{v['high']:.2f})"


def test_intervals_of_many_systems_are_for_wide_places(tmp_path):
    systems = ("ar", *(f"static:{w}" for w in range(2, 8)))
    results = synthetic_results(tmp_path, systems)
    narrow, wide = tables(results), tables(results, wide=True)
    assert [t.title for t in wide if t not in narrow] == ["SR over ar (95%)"]
    alone = synthetic_results(tmp_path / "alone", ("ar",))
    assert not [t for t in tables(alone, wide=True) if "95%" in t.title]


def test_plain_columns_are_aligned(tmp_path):
    title, *lines, note = plain(main_table(synthetic_results(tmp_path))).splitlines()
    assert title == "AL and SR by category, greedy"
    assert note.startswith("AL: tokens a round")
    assert len({len(line) for line in lines}) == 1
    assert all(
        line.startswith(("system", "prompts", "ar ", "static:5", "dflash")) for line in lines
    )


def test_missing_figures_are_dashes(tmp_path):
    results = synthetic_results(tmp_path, categories=("math",), each=1)
    assert [row[4] for row in speed_table(results).rows] == ["-"] * 3
    dflash = results["systems"]["dflash"]
    dflash["tokens_per_second"] = dflash["speedup"] = dflash["averages"]["speedup"] = None
    assert speed_table(results).rows[2][1:7] == ("-",) * 6
    dflash["categories"] = {}
    assert main_table(results).rows[3][1] == "-"
    assert speedups_table(results).rows[0][3] == "-"
    assert speeds_table(results).rows[2][2] == "-"
