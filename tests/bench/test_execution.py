"""Programs within limits: what passes, what does not, and what they cannot see."""

from __future__ import annotations

import os
import time

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


def test_limits_that_let_nothing_run_are_refused():
    check_runs(SHORT)
    with pytest.raises(RequestError, match="Raise --code-seconds"):
        check_runs(Limits(memory_mib=4))


def test_a_judge_that_passes_everything_is_refused(monkeypatch):
    monkeypatch.setattr(execution, "run_program", lambda *_: "passed")
    with pytest.raises(RequestError, match="a wrong program passes"):
        check_runs(SHORT)
