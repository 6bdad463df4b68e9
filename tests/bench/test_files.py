from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys

import pytest

from hybridspec.bench.files import LOCK, locked, write_atomically
from hybridspec.errors import RequestError

HOLD = """
import sys, time
from pathlib import Path
from hybridspec.bench.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds `tmp_path / "out"`."""
    command = [sys.executable, "-c", HOLD, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_bench_is_told_who_holds_the_folder(tmp_path, holder):
    said = rf"out is in use by another bench \(process {holder.pid}\)\. Wait.*--out"
    with pytest.raises(RequestError, match=said), locked(tmp_path / "out"):
        pytest.fail("both hold it")
    assert (tmp_path / "out" / LOCK).exists()  # the refused one leaves the other's lock


def test_a_killed_bench_holds_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    assert (tmp_path / "out" / LOCK).exists()
    with locked(tmp_path / "out"):
        assert (tmp_path / "out" / LOCK).read_text() == f"{os.getpid()}\n"
    assert not (tmp_path / "out" / LOCK).exists()


def test_a_lock_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    real, done = fcntl.flock, []

    def flock(descriptor, operation):
        if not done:
            (tmp_path / LOCK).unlink()  # as the former holder does after we have opened the file
        done.append(descriptor)
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    with locked(tmp_path):
        assert len(done) == 2
        assert (tmp_path / LOCK).exists()


def test_a_file_system_without_locks_is_used_without(tmp_path, monkeypatch):
    def none(descriptor, operation):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    with locked(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()


def test_a_folder_that_stayed_empty_is_removed_and_no_other(tmp_path):
    with locked(tmp_path / "out"):
        pass
    assert not (tmp_path / "out").exists()
    with locked(tmp_path / "out"):
        (tmp_path / "out" / "kept").touch()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept"]


def test_a_folder_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RequestError, match=r"cannot be written.*--out"), locked(tmp_path / "file"):
        pass
    with pytest.raises(RequestError, match=r"cannot be written.*--out"):
        write_atomically(tmp_path / "none" / "speed.json", "{}")


def test_an_atomic_write_leaves_the_old_file_when_it_fails(tmp_path, monkeypatch):
    path = tmp_path / "speed.json"
    write_atomically(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RequestError, match="No space left"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
