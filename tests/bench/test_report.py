from __future__ import annotations

import sys

from bench.synthetic import synthetic_results
from hybridspec.bench.equality import Difference
from hybridspec.bench.report import show


def shown(results):
    lines = []
    show(results, lines.append)
    return "\n".join(lines)


def test_the_report_states_machine_warmup_and_equality(tmp_path):
    said = shown(synthetic_results(tmp_path))
    assert "A processor, 4 cores, threads: 2; torch 2.13" in said
    assert "on cpu in float32: 8 warm-up generations discarded." in said
    assert "busy" not in said
    assert "All 18 other answers equal those of ar, first repeat.\n" in said
    assert "DIFFERENT" not in said


def test_a_system_alone_is_not_said_to_equal_itself(tmp_path):
    said = shown(synthetic_results(tmp_path, ("ar",)))
    assert "Nothing was compared: ar is the only system" in said
    assert "equal" not in said
    assert "Speed-up" not in said


def test_repeats_of_a_system_alone_are_compared(tmp_path):
    said = shown(synthetic_results(tmp_path, ("ar",), repeats=2))
    assert "All 9 other answers equal those of ar, first repeat. No other system was run." in said


def test_a_busy_machine_is_said(tmp_path):
    results = synthetic_results(tmp_path)
    results["runs"][0]["load_average"] = 3.5
    assert "The machine was busy at its start (load 3.5)" in shown(results)


def test_differences_are_loud_and_the_first_are_listed(tmp_path):
    found = tuple(
        Difference("math-0", "dflash", i, 12, 5, 6, gap=3e-6, regret=3e-6) for i in range(12)
    )
    said = shown(synthetic_results(tmp_path, found=found))
    assert "DIFFERENT TOKENS: 12 of 18 other answers" in said
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
