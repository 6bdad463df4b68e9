"""The tables of the kernels' bench: each time beside the best peer's for the same work."""

from __future__ import annotations

import json
import sys

import pytest

from hybridspec.kernels.bench import table
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
    ],
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
    assert not any("SGLang" in name or "cuBLAS" in name or "check" in name for name in found)


def test_what_was_measured_on_is_said():
    first = table.table(DOCUMENT).split("\n")[0]
    assert first.startswith("G, torch 2.11, Triton 3.6, commit 012345678, driver 580. A copy: 4.2")


def test_a_page_is_filled_between_its_marks_and_again(tmp_path, monkeypatch):
    page, figures = tmp_path / "page.md", tmp_path / "kernels.json"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    figures.write_text(json.dumps(DOCUMENT))
    monkeypatch.setattr(sys, "argv", ["table", str(figures), str(page)])
    for _ in range(2):
        assert table.main() == 0
    assert page.read_text() == f"before\n{BEGIN}\n{table.table(DOCUMENT)}\n{END}\nafter\n"


@pytest.mark.parametrize("page", ["none", BEGIN, END + BEGIN])
def test_a_page_without_marks_is_refused(page):
    with pytest.raises(ValueError, match="lacks"):
        fill(page, "text")
