"""Programs within limits: what passes, what does not, and what they cannot see."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from hybridspec.bench import execution
from hybridspec.bench.execution import Limits, check_runs, run_program
from hybridspec.errors import RequestError

SHORT = Limits(seconds=2, memory_mib=256)


@pytest.mark.parametrize(
    "source",
    [
        "assert 1 + 1 == 2",
        "print('noise' * 10000)",
        "if __name__ == '__main__':\n    pass",
    ],
)
def test_what_passes(source):
    assert run_program(source, SHORT) == "passed"


@pytest.mark.parametrize(
    "source",
    [
        "assert 1 + 1 == 3",
        "def f(:",
        "import sys; sys.exit(0)",  # an early end is no pass
        "import os; os._exit(0)",
        "x = 'a' * (1 << 30)",  # beyond the memory
        "open('big', 'w').write('a' * (4 << 20))",
        "input()",
    ],
)
def test_what_fails(source):
    assert run_program(source, SHORT) == "failed"


@pytest.mark.parametrize("source", ["while True: pass", "import time; time.sleep(60)"])
def test_what_does_not_end(source):
    assert run_program(source, Limits(seconds=1)) == "out of time"


def test_it_sees_nothing_of_ours(monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET_TOKEN", "hush")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "re.py").write_text("raise SystemExit")  # nor imports from our folder
    source = (
        "import os, re, sys\n"
        "assert 'hush' not in os.environ.values() and 'HOME' not in os.environ\n"
        "assert os.listdir('.') == []\n"
        f"assert os.getcwd() != {str(tmp_path)!r}\n"
        "open('left.txt', 'w').close()\n"
    )
    assert run_program(source, SHORT) == "passed"
    assert os.listdir(tmp_path) == ["re.py"]


def test_a_child_ends_with_it(tmp_path):
    """Root may start processes in spite of the limit; they share the session that is ended."""
    beats = tmp_path / "beats"
    source = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    while True:\n"
        f"        open({str(beats)!r}, 'a').write('.')\n"
        "        time.sleep(0.02)\n"
    )
    assert run_program(source, Limits(seconds=1)) != "passed"
    assert beats.exists() == (os.geteuid() == 0)
    if beats.exists():
        before = beats.stat().st_size
        time.sleep(0.2)
        assert beats.stat().st_size == before


def folders(monkeypatch, tmp_path):
    """Where programs run from now on."""
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.mark.parametrize(("end", "verdict"), [("", "passed"), ("assert 0", "failed")])
def test_thousands_of_nested_folders_are_removed(monkeypatch, tmp_path, end, verdict):
    place = folders(monkeypatch, tmp_path)
    deep = "import os\nfor _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    assert run_program(deep + end, Limits()) == verdict
    assert not any(place.iterdir())


def test_a_locked_folder_is_removed(monkeypatch, tmp_path):
    place = folders(monkeypatch, tmp_path)
    source = "import os\nos.makedirs('a/b')\nos.chmod('a', 0)\nos.chmod('.', 0)"
    assert run_program(source, SHORT) == "passed"
    assert not any(place.iterdir())


@pytest.mark.parametrize("command", ["no-such-command-anywhere", "false"])
def test_a_folder_that_cannot_be_removed_changes_no_verdict(monkeypatch, tmp_path, command):
    place = folders(monkeypatch, tmp_path)
    done = execution._done
    monkeypatch.setattr(execution, "_done", lambda *_: done(command))
    assert run_program("assert 1", SHORT) == "passed"
    assert any(place.iterdir())


def test_no_room_for_a_folder_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(RequestError, match="cannot be run here: No such file"):
        run_program("assert 1", SHORT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs may start processes")
def test_nothing_waits_for_a_process_that_left_the_session(tmp_path):
    """It keeps the pipe open for longer than a test may take."""
    left = tmp_path / "left"
    source = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    open({str(left)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n"
    )
    try:
        assert run_program(source, Limits(seconds=2)) == "out of time"
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)


def test_what_a_program_says_on_the_verdicts_pipe_is_not_kept():
    """An endless message ends the program at its first bytes, long before its time is up."""
    flood = "import os\nwhile True:\n    os.write(3, b'a' * 4096)"
    assert run_program(flood, Limits(seconds=60)) == "failed"
    assert run_program("import os\nos.write(3, b'a')", SHORT) == "failed"


def test_no_more_than_the_limit_is_read():
    pipe, theirs = os.pipe()
    os.write(theirs, b"a" * 1000)
    try:
        assert execution._hear(pipe, 1) == b"a" * 64
        assert len(os.read(pipe, 1000)) == 936
        assert execution._hear(pipe, 0.01) is None
    finally:
        os.close(pipe)
        os.close(theirs)


def test_a_task_larger_than_a_pipe_and_no_file_left_open():
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert run_program(f"x = {'a' * 300_000!r}", SHORT) == "passed"
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_limits_that_let_nothing_run_are_refused():
    check_runs(SHORT)
    with pytest.raises(RequestError, match="Raise --code-seconds"):
        check_runs(Limits(memory_mib=4))


def test_a_judge_that_passes_everything_is_refused(monkeypatch):
    monkeypatch.setattr(execution, "run_program", lambda *_: "passed")
    with pytest.raises(RequestError, match="a wrong program passes"):
        check_runs(SHORT)
