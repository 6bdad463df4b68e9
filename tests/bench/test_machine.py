from __future__ import annotations

from types import SimpleNamespace

import torch

from hybridspec.bench import machine


def test_gpu_facts_come_with_a_gpu_only(monkeypatch):
    assert "gpu" not in machine.machine(torch.device("cpu"))
    facts = SimpleNamespace(name="H200", total_memory=141 * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: facts)
    asked = []

    def output(command):
        asked.append(command)
        return "570.1, 700.00 W, 1980 MHz"

    monkeypatch.setattr(machine, "_output", output)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, 3")
    found = machine.machine(torch.device("cuda:1"))
    assert (found["gpu"], found["gpu_memory_gib"]) == ("H200", 141.0)
    assert (found["driver"], found["power_limit"]) == ("570.1", "700.00 W")
    assert asked[0][-1] == "--id=3"
    monkeypatch.setattr(machine, "_output", lambda command: None)
    assert "driver" not in machine.machine(torch.device("cuda:1"))


def test_the_source_digest_follows_the_code_that_is_measured(tmp_path, monkeypatch):
    for name in ("engine.py", "model/target.py", "model/a.cu", "bench/speed.py", "cli/main.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    monkeypatch.setattr(machine, "PACKAGE", tmp_path)
    before = machine.code()["source_sha256"]
    (tmp_path / "bench" / "speed.py").write_text("x = 2\n")
    (tmp_path / "cli" / "main.py").write_text("x = 2\n")
    assert machine.code()["source_sha256"] == before
    for name in ("target.py", "a.cu"):
        (tmp_path / "model" / name).write_text("x = 2\n")
        after = machine.code()["source_sha256"]
        assert after != before
        before = after


def test_the_commit_is_the_projects_own(tmp_path):
    said = {"rev-parse": "abc123", "status": " M src/x.py"}

    def ask(command):
        return said[command[3]]

    package = tmp_path / "src" / "hybridspec"
    assert machine._commit(ask, package) is None  # no checkout
    (tmp_path / ".git").mkdir()
    assert machine._commit(ask, package) == "abc123+"
    said["status"] = ""
    assert machine._commit(ask, package) == "abc123"
    installed = tmp_path / "lib" / "site-packages" / "hybridspec"
    assert machine._commit(ask, installed) is None  # inside somebody else's checkout


def test_a_command_that_fails_says_nothing():
    assert machine._output(["false"]) is None
    assert machine._output(["there-is-no-such-command"]) is None
    assert machine._output(["echo", " x "]) == "x"


def test_circumstances_hold_date_and_load():
    facts = machine.circumstances()
    assert set(facts) == {"date", "load_average", "commit"}
    assert facts["date"].endswith("+00:00")
