"""The kernels' bench at a size that the interpreter takes: all parts run, all checks hold."""

from __future__ import annotations

import json

import pytest

from hybridspec.bench.small import MEANINGLESS
from hybridspec.errors import RequestError
from hybridspec.kernels.bench import main as bench
from hybridspec.kernels.bench.progress import Progress


def read(folder):
    return json.loads((folder / "kernels.json").read_text())


SOME = ("check-products", "check-gdn", "check-rounds", "forward", "norms")


@pytest.fixture(autouse=True)
def _copied(monkeypatch):
    """A GPU's copy is not what is tested here."""
    monkeypatch.setattr(bench, "copy_bandwidth", lambda s: 4e12)


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
    assert "All checks that ran hold.\n" in capsys.readouterr().out


def test_a_part_that_fails_is_told_and_the_rest_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(bench.PARTS, "router", "nowhere.time_router")
    asked = ["--shape", "small", "--out", str(tmp_path), "--parts", "router", "norms"]
    assert bench.main(asked) == 1
    found = read(tmp_path)
    assert found["shape_is"] == "small"
    assert "nowhere" in found["failed"]["router"]["traceback"]
    assert [r["name"] for r in found["records"]] == ["prepare", "embed"]
    lines = capsys.readouterr().out.split("\n")
    assert MEANINGLESS in lines
    assert lines[-2] == "No check ran. Not run to the end: router."
    said = [line for line in lines if "router failed" in line]
    assert said[0].startswith("router failed: ModuleNotFoundError: No module named 'hybridspec.")
    assert said[0].endswith("nowhere'. The others go on.")


def test_a_run_goes_on_where_another_ended(tmp_path, monkeypatch, capsys):
    """What is there is not measured again; what failed is, and what it had left is gone."""

    def half(s):
        s.keep({"name": "half", "us": 1.0})
        raise ValueError("broken")

    monkeypatch.setattr(bench, "part", lambda name: half if name == "router" else norms)
    ran = []

    def norms(s):
        ran.append(s.part)
        s.keep({"name": s.part, "us": 1.0})

    asked = ["--shape", "small", "--sweeps", "1", "--out", str(tmp_path)]
    assert bench.main([*asked, "--parts", "norms", "router"]) == 1
    assert [r["name"] for r in read(tmp_path)["records"]] == ["norms", "half"]
    monkeypatch.setattr(bench, "part", lambda name: norms)
    assert bench.main([*asked, "--parts", "norms", "router", "out", "--resume"]) == 0
    found = read(tmp_path)
    assert ran == ["norms", "router", "out"]
    assert [r["name"] for r in found["records"]] == ["norms", "router", "out"]
    assert found["failed"] == {}
    assert {n: p["sweeps"] for n, p in found["parts"].items()} == dict.fromkeys(ran, 1)
    found["parts"]["norms"]["source_sha256"] = "of another day"
    (tmp_path / "kernels.json").write_text(json.dumps(found))
    capsys.readouterr()
    assert bench.main([*asked, "--parts", "norms", "--resume"]) == 0
    assert "Of another version of the source are the figures of: norms." in capsys.readouterr().out
    assert len(ran) == 3


@pytest.mark.parametrize("change", [{"shape": {}}, {"schema": "x"}, {"machine": {"torch": "1"}}])
def test_figures_of_two_machines_or_shapes_are_not_mixed(change, tmp_path):
    asked = ["--shape", "small", "--sweeps", "1", "--out", str(tmp_path), "--parts", "norms"]
    assert bench.main(asked) == 0
    (tmp_path / "kernels.json").write_text(json.dumps(read(tmp_path) | change))
    with pytest.raises(RequestError, match="go on where it was begun"):
        bench.main([*asked, "--resume"])


@pytest.mark.parametrize(
    "change",
    [{"parts": None}, {"parts": {"norms": {}}}, {"records": None}, {"records": [1]}, {"failed": 1},
     {"records": [{}]}],
    ids=str,
)  # fmt: skip
def test_a_damaged_document_is_not_gone_on_with(change, tmp_path):
    done = Progress(bench.setting("small"), tmp_path / "kernels.json")
    done.write()
    sound = json.loads(done.path.read_text())
    done.path.write_text(damaged := json.dumps(sound | change))
    with pytest.raises(RequestError, match="is no document of this bench"):
        done.resume()
    assert done.path.read_text() == damaged


def test_after_ctrl_c_it_says_where_to_go_on(tmp_path, monkeypatch, capsys):
    def run(name, done):
        if name == "router":
            raise KeyboardInterrupt
        done.begin(name)
        done.end(name, 1.0)
        return True

    monkeypatch.setattr(bench, "run", run)
    asked = ["--shape", "small", "--out", str(tmp_path), "--sweeps", "1", "--parts"]
    assert bench.main([*asked, "norms", "router"]) == 130
    assert "--resume goes on from there" in "".join(capsys.readouterr())
    with pytest.raises(KeyboardInterrupt):
        bench.main([*asked, "router"])


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(bench, "run", None)
    with pytest.raises(RequestError, match="cannot be written"):
        bench.main(["--shape", "small", "--out", str(tmp_path / "file" / "x"), "--parts", "norms"])


def test_a_file_that_is_no_document_is_not_gone_on_with(tmp_path):
    out = tmp_path / "kernels.json"
    out.write_text("[]")
    with pytest.raises(RequestError, match="is no document of this bench"):
        bench.main(["--shape", "small", "--out", str(out), "--parts", "norms", "--resume"])


def test_no_part_begins_when_time_is_up(tmp_path, monkeypatch, capsys):
    times = iter([0.0, 5.0, 10.5])
    monkeypatch.setattr(bench.time, "monotonic", lambda: next(times))
    monkeypatch.setattr(bench, "part", lambda name: lambda s: s.keep({"name": name}))
    asked = ["--shape", "small", "--out", str(tmp_path), "--seconds", "10", "--parts"]
    assert bench.main([*asked, "norms", "router", "out"]) == 1
    found = read(tmp_path)
    assert found["left_out"] == ["router", "out", "norms"]  # the last for its second sweep
    assert [r["name"] for r in found["records"]] == ["norms"]
    assert "Left out, for time was up: router, out, norms." in capsys.readouterr().out


def test_a_gpu_that_answers_no_more_gets_a_new_process(tmp_path, monkeypatch):
    """It is told what failed, and runs neither that nor what is there."""
    started = []

    def execute(program, arguments):
        started.extend(arguments)
        raise KeyboardInterrupt  # it would not return

    def broken(s):
        raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(bench.os, "execv", execute)
    monkeypatch.setattr(bench, "answers", lambda device: False)
    monkeypatch.setattr(bench, "part", lambda name: broken)
    asked = ["--shape", "small", "--without", "out", "--out", str(tmp_path), "--seconds", "500"]
    with pytest.raises(KeyboardInterrupt):
        bench.main(asked)
    first = next(iter(bench.PARTS))
    assert started[1:3] == ["-m", "hybridspec.kernels.bench"]
    given = bench.parser(None, ["small"]).parse_args(started[3:])
    assert given.resume
    assert given.without == ["out", first]
    assert 400 < given.seconds <= 500
    assert list(read(tmp_path)["failed"]) == [first]


def test_a_second_sweep_stands_beside_the_first(tmp_path, monkeypatch):
    times = iter([100.0, 50.0, 104.0, 50.0])
    monkeypatch.setattr(bench.Clock, "__call__", lambda self, calls: next(times))
    assert bench.main(["--shape", "small", "--out", str(tmp_path), "--parts", "norms"]) == 0
    found = read(tmp_path)
    prepare, embed = found["records"]
    assert (prepare["us"], prepare["us_again"], prepare["spread"]) == (100, 104, 0.04)
    assert (embed["us_again"], embed["spread"]) == (50, 0)
    assert found["machine"]["torch"]
    assert found["code"]["source_sha256"]


def test_every_part_is_a_function_of_this_folder():
    for name in bench.PARTS:
        assert callable(bench.part(name)), name
