"""The kernels' bench at a size that the interpreter takes: all parts run, all checks hold."""

from __future__ import annotations

import json

import pytest

from hybridspec.kernels.bench import main as bench

SOME = ("check-products", "check-gdn", "check-rounds", "forward", "norms")


@pytest.mark.parametrize(
    "parts", [pytest.param((), marks=pytest.mark.full, id="all"), pytest.param(SOME, id="some")]
)
def test_every_part_runs_and_every_check_holds(parts, tmp_path, capsys):
    out = tmp_path / "there" / "kernels.json"
    asked = ["--parts", *parts] if parts else []
    assert bench.main(["--shape", "small", "--sweeps", "1", "--out", str(out), *asked]) == 0
    found = json.loads(out.read_text())
    assert found["failed"] == {}
    names = [r["name"] for r in found["records"]]
    assert any(n.startswith("check ") for n in names)
    assert any(n.startswith("target pass") for n in names)
    assert "checks that do not hold: none" in capsys.readouterr().out


def test_a_part_that_fails_is_told_and_the_rest_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(bench.PARTS, "router", "nowhere.time_router")
    asked = ["--shape", "small", "--out", str(tmp_path), "--parts", "router", "norms"]
    assert bench.main(asked) == 1
    found = json.loads((tmp_path / "kernels.json").read_text())
    assert "nowhere" in found["failed"]["router"]
    assert [r["name"] for r in found["records"]] == ["prepare", "embed"]
    assert "router failed" in capsys.readouterr().out


def test_a_second_sweep_stands_beside_the_first(tmp_path, monkeypatch):
    times = iter([100.0, 50.0, 104.0, 50.0])
    monkeypatch.setattr(bench.Clock, "__call__", lambda self, calls: next(times))
    assert bench.main(["--shape", "small", "--out", str(tmp_path), "--parts", "norms"]) == 0
    found = json.loads((tmp_path / "kernels.json").read_text())
    prepare, embed = found["records"]
    assert (prepare["us"], prepare["us_again"], prepare["spread"]) == (100, 104, 0.04)
    assert (embed["us_again"], embed["spread"]) == (50, 0)
    assert found["machine"]["torch"]
    assert found["code"]["source_sha256"]


def test_every_part_is_a_function_of_this_folder():
    for name in bench.PARTS:
        assert callable(bench.part(name)), name
