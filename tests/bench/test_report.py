from __future__ import annotations

import sys

from bench.synthetic import synthetic_results
from hybridspec.bench.equality import Difference
from hybridspec.bench.report import categories_table, plain, show, systems_table


def shown(results):
    lines = []
    show(results, lines.append)
    return "\n".join(lines)


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


def test_categories_stand_beside_the_baselines_speed(tmp_path):
    table = categories_table(synthetic_results(tmp_path))
    assert table.header == ("category", "prompts", "ar tok/s", "static:5", "dflash")
    assert [row[:3] for row in table.rows] == [(c, "3", "90.9") for c in ("coding", "math", "rag")]
    assert "(" in table.rows[0][3]


def test_many_systems_leave_out_the_intervals(tmp_path):
    systems = ("ar", *(f"static:{w}" for w in range(2, 8)))
    assert "(" not in plain(categories_table(synthetic_results(tmp_path, systems)))


def test_plain_columns_are_aligned(tmp_path):
    title, *lines = plain(systems_table(synthetic_results(tmp_path))).splitlines()
    assert title == "All prompts"
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
    assert categories_table(results).rows[0][4] == "-"


def test_the_report_states_machine_warmup_and_equality(tmp_path):
    said = shown(synthetic_results(tmp_path))
    assert "A processor, 4 cores, threads: 2; torch 2.13" in said
    assert "on cpu in float32: 8 warm-up generations discarded." in said
    assert "busy" not in said
    assert "All 27 answers equal those of ar, first repeat." in said
    assert "DIFFERENT" not in said


def test_a_busy_machine_is_said(tmp_path):
    results = synthetic_results(tmp_path)
    results["runs"][0]["load_average"] = 3.5
    assert "The machine was busy at its start (load 3.5)" in shown(results)


def test_differences_are_loud_and_the_first_are_listed(tmp_path):
    found = tuple(
        Difference("math-0", "dflash", i, 12, 5, 6, gap=3e-6, regret=3e-6) for i in range(12)
    )
    said = shown(synthetic_results(tmp_path, found=found))
    assert "DIFFERENT TOKENS: 12 of 27 answers" in said
    assert "math-0, dflash, repeat 0: token 12 is 6, expected 5" in said
    assert "3.00e-06 apart" in said
    assert "and 2 more" in said


def test_startup_is_shown(tmp_path):
    results = synthetic_results(tmp_path)
    results["startup"] = {"first_seconds": 5.0, "warm_seconds": 2.5, "peak_memory_mib": 800.4}
    assert "5.00 s in the first run, 2.50 s after; resident memory at most 800 MiB." in shown(
        results
    )


def test_a_terminal_gets_tables_of_rich(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(synthetic_results(tmp_path))
    said = capsys.readouterr().out
    assert "┃" in said
    assert "static:5" in said


def test_a_terminal_without_rich_gets_plain_text(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    show(synthetic_results(tmp_path))
    assert "system " in capsys.readouterr().out
