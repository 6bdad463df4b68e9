"""The kernels' bench at a size that the interpreter takes: all parts run, all checks hold."""

from __future__ import annotations

import json

from hybridspec.kernels.bench import main as bench


def test_every_part_runs_and_every_check_holds(tmp_path, capsys):
    out = tmp_path / "there" / "kernels.json"
    assert bench.main(["--shape", "small", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["failed"] == {}
    names = [r["name"] for r in found["records"]]
    assert any(n.startswith("check ") for n in names)
    assert any(n.startswith("chain ") for n in names)
    assert "checks that do not hold: none" in capsys.readouterr().out


def test_a_part_that_fails_is_told_and_the_rest_goes_on(tmp_path, capsys, monkeypatch):
    def broken(setting):
        raise RuntimeError("no such luck")

    monkeypatch.setitem(bench.PARTS, "router", broken)
    out = tmp_path / "kernels.json"
    assert bench.main(["--shape", "small", "--out", str(out), "--parts", "router", "norms"]) == 1
    found = json.loads(out.read_text())
    assert "no such luck" in found["failed"]["router"]
    assert [r["name"] for r in found["records"]] == ["prepare", "embed"]
    assert "router failed" in capsys.readouterr().out
