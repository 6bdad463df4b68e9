from __future__ import annotations

import pytest

from bench.synthetic import synthetic_results
from hybridspec.bench.tables import (
    lengths_table,
    plain,
    speeds_table,
    speedups_table,
    systems_table,
)


def test_figures_stand_under_their_heads(tmp_path):
    results = synthetic_results(tmp_path, repeats=2)
    table = systems_table(results)
    row = dict(zip(table.header, table.rows[1], strict=True))
    ours = results["systems"]["static:5"]
    assert row["system"] == "static:5"
    assert row["tok/s"] == f"{ours['tokens_per_second']['median']:.1f}"
    assert row["x ar"] == f"{ours['speedup']['value']:.2f}"
    assert row["95%"] == f"{ours['speedup']['low']:.2f}-{ours['speedup']['high']:.2f}"
    assert row["acc. length"] == f"{ours['mean_acceptance_length']:.2f}"
    assert row["mean w"] == f"{ours['mean_verification_length']:.2f}"
    assert row["ms/round"] == "15.00"  # 10 + w at w = 5
    assert row["tokens"] == str(9 * 41 * 2)
    assert row["stop/length"] == "0/18"


def test_the_baseline_is_not_measured_against_itself(tmp_path):
    table = systems_table(synthetic_results(tmp_path))
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert (row["x ar"], row["95%"], row["x round"]) == ("1", "-", "1")


def test_the_parts_of_a_speedup_stand_beside_it(tmp_path):
    """No answer here is cut in a round: acceptance length over round cost is the speed-up."""
    results = synthetic_results(tmp_path)
    table = systems_table(results)
    row = dict(zip(table.header, table.rows[1], strict=True))
    assert row["acc. length"] == f"{results['systems']['static:5']['mean_acceptance_length']:.2f}"
    # three figures of two decimals each
    parts = float(row["acc. length"]) / float(row["x round"])
    assert parts == pytest.approx(float(row["x ar"]), rel=0.01)


def test_every_system_has_its_speed_and_length_in_every_category(tmp_path):
    systems = ("ar", *(f"static:{w}" for w in range(2, 17)), "dflash")
    results = synthetic_results(tmp_path, systems)
    speeds, lengths = speeds_table(results), lengths_table(results)
    assert speeds.header == lengths.header == ("system", "all", "coding", "math", "rag")
    assert speeds.rows[0] == ("prompts", "9", "3", "3", "3")
    assert [row[0] for row in speeds.rows[1:]] == [row[0] for row in lengths.rows[1:]]
    for name, speed, length in zip(systems, speeds.rows[1:], lengths.rows[1:], strict=True):
        s = results["systems"][name]
        sets = [s, *s["categories"].values()]
        assert speed == (name, *(f"{f['tokens_per_second']['median']:.1f}" for f in sets))
        assert length == (name, *(f"{f['mean_acceptance_length']:.2f}" for f in sets))
    assert max(map(len, plain(speeds).splitlines())) <= 80


def test_few_systems_have_their_intervals(tmp_path):
    results = synthetic_results(tmp_path)
    table = speedups_table(results)
    assert table.header == ("category", "prompts", "static:5", "dflash")
    s = results["systems"]["static:5"]["categories"]["coding"]["speedup"]
    assert table.rows[0][:3] == (
        *("coding", "3"),
        f"{s['value']:.2f} ({s['low']:.2f}-{s['high']:.2f})",
    )


def test_many_systems_leave_out_the_intervals(tmp_path):
    systems = ("ar", *(f"static:{w}" for w in range(2, 8)))
    table = speedups_table(synthetic_results(tmp_path, systems))
    assert "(" not in plain(table)
    assert [row[0] for row in table.rows] == ["prompts", *systems[1:]]


def test_plain_columns_are_aligned(tmp_path):
    title, *lines, note = plain(systems_table(synthetic_results(tmp_path))).splitlines()
    assert title == "All prompts"
    assert note.startswith("acc. length: tokens a round")
    assert len({len(line) for line in lines}) == 1
    assert all(line.startswith(("system ", "ar ", "static:5 ", "dflash ")) for line in lines)


def test_missing_figures_are_dashes(tmp_path):
    results = synthetic_results(tmp_path, categories=("math",), each=1)
    table = systems_table(results)
    assert [dict(zip(table.header, row, strict=True))["95%"] for row in table.rows] == ["-"] * 3
    results["systems"]["dflash"]["tokens_per_second"] = None
    results["systems"]["dflash"]["speedup"] = None
    assert systems_table(results).rows[2][1:5] == ("-", "-", "-", "-")
    results["systems"]["dflash"]["categories"] = {}
    assert speedups_table(results).rows[0][3] == "-"
    assert [row[2] for row in speeds_table(results).rows][3] == "-"
