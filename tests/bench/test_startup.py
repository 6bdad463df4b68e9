from __future__ import annotations

import os
import sys
import time

import pytest

from hybridspec.bench import startup
from hybridspec.bench.options import SpeedOptions
from hybridspec.errors import HybridSpecError


@pytest.fixture
def options(tmp_path, flat_pair):
    return SpeedOptions(
        out=tmp_path, model=str(flat_pair.target), draft=str(flat_pair.draft), device="cpu"
    )


def script(text):
    return [sys.executable, "-c", text]


def test_the_first_byte_counts_and_memory_is_that_of_the_child(options):
    held = "x = bytearray(96 * 2**20); x[::4096] = b'1' * len(x[::4096])"
    code = f"import sys, time; print('a', flush=True); {held}; time.sleep(0.2); print('b')"
    began = time.perf_counter()
    seconds, peak = startup._start(script(code), options)
    whole = time.perf_counter() - began
    assert 0 < seconds <= whole - 0.2  # what comes after the first byte is left out
    if peak is not None:  # there is a /proc
        assert 96 * 2**20 <= peak < 1000 * 2**20


def test_a_command_that_fails_is_an_error_with_its_last_line(options):
    fails = script("import sys; print('a'); sys.exit('Error: no such pair')")
    with pytest.raises(HybridSpecError, match="code 1: Error: no such pair"):
        startup._start(fails, options)
    with pytest.raises(HybridSpecError, match="it said nothing"):
        startup._start(script("pass"), options)


def test_the_command_is_that_of_a_user(options, flat_pair):
    command = startup._command(options)
    assert command[:4] == [sys.executable, "-m", "hybridspec", "generate"]
    assert command[command.index("--model") + 1] == str(flat_pair.target)
    assert command[command.index("--draft") + 1] == str(flat_pair.draft)
    assert "--chat" not in command


def test_threads_reach_the_child(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    asked = SpeedOptions(out=tmp_path, threads=3)
    code = "import os, sys; sys.exit(os.environ['OMP_NUM_THREADS'] != '3' or print('a'))"
    startup._start(script(code), asked)


def test_files_of_the_checkpoints_are_forgotten(options, flat_pair):
    names = {path.name for path in startup._files(options)}
    assert "model.safetensors" in names
    assert any(name.startswith("libtorch") for name in names)
    if hasattr(os, "posix_fadvise"):
        assert startup._forget(flat_pair.target / "model.safetensors")
    assert not startup._forget(flat_pair.target / "none.safetensors")


def test_a_real_start_is_measured(options, monkeypatch):
    monkeypatch.setattr(startup, "WARM_RUNS", 1)
    figures = startup.measure_startup(options)
    assert figures["first_seconds"] > 0
    assert figures["warm_runs"] == [figures["warm_seconds"]]
    assert figures["files_forgotten"] >= 2
