"""Repeats in fresh processes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import time

import pytest

from hybridspec.bench import measure, session
from hybridspec.bench.arguments import parse
from hybridspec.bench.journal import RECORDS
from hybridspec.bench.speed import main


def rows(out, kind):
    lines = [json.loads(line) for line in (out / RECORDS).read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


def test_each_repeat_has_a_process_of_its_own(command, out, capfd, monkeypatch):
    monkeypatch.setattr(measure, "load", lambda _: pytest.fail("loaded in this process"))
    assert main([*command, "--processes", "2"]) == 0
    said = capfd.readouterr()
    assert "Process 2 of 2:" in said.err
    assert "fresh processes: 2" in said.out
    assert len(rows(out, "run")) == 2
    assert [r["repeat"] for r in rows(out, "record")] == [0] * 6 + [1] * 6
    results = json.loads((out / "speed.json").read_text())
    assert results["fresh_processes"]
    assert len(results["systems"]["ar"]["tokens_per_second"]["repeats"]) == 2
    assert main([*command, "--repeats", "2"]) == 2  # another set-up
    assert "fresh_processes true there, false here" in capfd.readouterr().err


def test_what_a_process_cannot_do_is_one_sentence(command, out, capfd, monkeypatch):
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    assert main([*command, "--processes", "1"]) == 2
    said = capfd.readouterr().err
    assert "Error: HYBRIDSPEC_CHECK is set" in said
    assert "Traceback" not in said


def test_an_interrupted_process_is_reported_by_the_one_that_was_started(
    command, out, capfd, monkeypatch
):
    real, started = session._run_child, []

    def run(options, repeat):
        started.append(repeat)
        if len(started) == 2:
            raise KeyboardInterrupt
        real(options, repeat)

    monkeypatch.setattr(session, "_run_child", run)
    assert main([*command, "--processes", "3"]) == 130
    assert "Interrupted after 6 of 18 generations" in capfd.readouterr().err


def test_a_process_ends_with_its_parent(command, out):
    """Its stdin is its parent's life; it would have measured for minutes."""
    asked = [*command, "--max-tokens", "2000", "--limit", "1", "--threads", "1"]
    words = [sys.executable, "-m", "hybridspec.bench.session"]
    child = subprocess.Popen(words, stdin=subprocess.PIPE)
    out.mkdir()
    pickle.dump((parse(asked, "bench").settled("cpu"), 0), child.stdin)
    child.stdin.flush()
    deadline = time.monotonic() + 60
    while not (out / RECORDS).exists() and child.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.stdin.close()
    assert child.wait(timeout=10) == 130
