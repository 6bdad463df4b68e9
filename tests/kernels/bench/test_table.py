"""The tables of the kernels' bench: each time beside the best peer's for the same work."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from hybridspec.bench.small import MEANINGLESS
from hybridspec.errors import RequestError
from hybridspec.kernels.bench import table
from hybridspec.kernels.bench.figure_rows import figure_tables
from hybridspec.kernels.bench.table import BEGIN, END, fill

DOCUMENT = {
    "machine": {"gpu": "G", "cpu": "C", "torch": "2.11", "driver": "580"},
    "triton": "3.6", "run": {"commit": "0123456789abcdef"}, "copy_tb_s": 4.2,
    "records": [
        {"name": "check joint", "ok": True},
        {"name": "joint", "config": "c", "us": 10.0, "us_again": 10.5, "bytes": 4e6, "tb_s": 0.4},
        {"name": "joint, cuBLAS", "config": "", "us": 12.0},
        {"name": "round exact: w = 4, m = 2", "config": "", "us": 100.0},
        {"name": "round exact: w = 4, m = 4", "config": "", "us": 110.0},
        {"name": "round SGLang 0.5.16 per-token: w = 4, m = 2", "config": "", "us": 400.0},
        {"name": "round SGLang 0.5.23 per-token: w = 4, m = 2", "config": "", "us": 250.0},
        {"name": "round SGLang 0.5.23 ring: w = 4, m = 2", "config": "", "failed": "no"},
        {"name": "norm", "config": "", "us": 2.0},
        {"name": "attend", "config": "", "us": 3.0},
        {"name": "attend, SDPA", "config": "", "us": 6.0},
        {"name": "stream block, U = 8", "config": "", "us": 20.0},
        {"name": "SGLang 0.5.16 fused_moe, U = 8", "config": "", "us": 30.0},
        {"name": "SGLang 0.5.16 fused_moe, U = 25", "config": "", "us": 10.0},
    ],
    "figures": [
        {"figure": "layer", "unit": "us", "sense": "at most", "target": 21, "found": 20.0,
         "met": True},
        {"figure": "ratio", "unit": "times", "sense": "at least", "target": 1.3, "found": 1.1,
         "met": False},
        {"figure": "call", "unit": "us", "sense": "at most", "target": 550, "found": None,
         "met": None},
        {"figure": "known", "unit": "us", "sense": "at most", "target": None, "found": 7.0,
         "met": None},
    ],
    "code": {"source_sha256": "now"},
    "parts": {"joint": {"source_sha256": "now"}, "norms": {"source_sha256": "before"}},
    "failed": {"head": {"error": "head failed."}},
}  # fmt: skip


def rows() -> dict[str, list[str]]:
    cells = [
        [c.strip() for c in line.split("|")[1:-1]] for line in table.table(DOCUMENT).split("\n")
    ]
    return {row[0]: row[1:] for row in cells if row}


def test_times_stand_beside_the_best_peer_of_the_same_work():
    found = rows()
    assert found["joint"] == ["c", "10.0", "10.5", "4.0", "0.4", "", "12.0", "1.20"]
    assert found["round exact: w = 4, m = 2"][-2:] == ["250.0", "2.50"]
    assert found["round exact: w = 4, m = 4"][-2:] == ["", ""]
    assert found["norm"][-2:] == ["", ""]
    assert found["attend"][-2:] == ["6.0", "2.00"]
    assert found["stream block, U = 8"][-2:] == ["30.0", "1.50"]
    assert not any("SGLang" in name or "cuBLAS" in name or "check" in name for name in found)


def test_what_was_measured_on_is_said():
    first = table.table(DOCUMENT).split("\n")[0]
    assert first.startswith("G, torch 2.11, Triton 3.6, commit 012345678, driver 580. A copy: 4.2")
    assert first.endswith("Measured with an earlier source: norms. Failed: head.")


def test_a_small_shape_s_figures_are_said_to_mean_nothing():
    assert table.table(DOCUMENT | {"shape_is": "small"}).startswith(MEANINGLESS)
    assert MEANINGLESS not in table.table(DOCUMENT | {"shape_is": "35b"})


def test_every_figure_says_whether_it_was_reached():
    found = rows()
    assert found["layer"] == ["20 us", "at most 21 us", "yes"]
    assert found["ratio"] == ["1.1 times", "at least 1.3 times", "no"]
    assert found["call"] == ["not measured", "at most 550 us", ""]
    assert found["known"] == ["7 us", "", ""]


def figure(name, found, target, met):
    return {"figure": name, "unit": "us", "sense": "at most", "target": target, "found": found,
            "met": met}  # fmt: skip


def test_figures_that_differ_in_w_or_u_alone_share_a_row():
    figures = [
        figure("round, w = 2", 97.24, 140, True), figure("round, w = 4", 160.0, 150, False),
        figure("pass, w = 2: gate", 9.0, 5, False), figure("pass, w = 4: gate", None, 5, None),
        figure("alone, w = 1", 1.0, 2, True), figure("layer, U = 8", 7.0, None, None),
        figure("layer, U = 25", 8.0, None, None),
    ]  # fmt: skip
    single, rounds, layers = figure_tables(figures)
    assert single[1:] == [["alone, w = 1", "1 us", "at most 2 us", "yes"]]
    assert rounds == [
        ["figure", "w = 2", "w = 4", "unit", "wanted", "reached"],
        ["round", "97.24", "160", "us", "at most 140 / 150", "at w = 2 alone"],
        ["pass: gate", "9", "not measured", "us", "at most 5", "no"],
    ]
    assert layers[1] == ["layer", "7", "8", "us", "", ""]


def test_the_committed_page_has_the_committed_document_s_figures():
    root = Path(__file__).parents[3]
    found = json.loads((root / "benchmarks" / "h200" / "kernels.json").read_text())
    page = (root / "docs" / "kernels.md").read_text()
    assert fill(page, table.goals(found)) == page


def test_a_page_is_filled_between_its_marks_and_again(tmp_path, monkeypatch):
    page, figures = tmp_path / "page.md", tmp_path / "kernels.json"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    figures.write_text(json.dumps(DOCUMENT))
    monkeypatch.setattr(sys, "argv", ["table", str(figures), str(page)])
    for _ in range(2):
        assert table.main() == 0
    assert page.read_text() == f"before\n{BEGIN}\n{table.goals(DOCUMENT)}\n{END}\nafter\n"


@pytest.mark.parametrize("text", [None, "no JSON", "[]", "{}"])
def test_what_is_no_document_is_refused_with_a_sentence(text, tmp_path, monkeypatch, capsys):
    path = tmp_path / "kernels.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["table", str(path)])
    assert table.main() == 2
    assert capsys.readouterr().err.startswith(f"Error: {path} ")


def test_its_help_is_told(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["table", "--help"])
    with pytest.raises(SystemExit) as ended:
        table.main()
    assert ended.value.code == 0
    assert "usage: python -m hybridspec.kernels.bench.table" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["none", BEGIN, END + BEGIN])
def test_a_page_without_marks_is_refused(page):
    with pytest.raises(RequestError, match="lacks"):
        fill(page, "text")
