"""Steps of a run beside SGLang: limits, failures, what is kept, and who is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from hybridspec.bench.scripted.steps import Steps


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def last_word(said: str) -> dict[str, str] | None:
    return {"word": said.split()[-1]} if said.split() else None


def gone(pid: int) -> bool:
    """Whether a process has ended, within 10 s; one that only waits to be collected has."""
    for _ in range(100):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.1)
    return False


def test_a_step_reads_what_its_process_said(tmp_path, capsys):
    steps = Steps(tmp_path, 60)
    code = "import os; print('loud'); print(os.environ['COLOUR'])"
    found = steps.run("one", python(code), last_word, environment={"COLOUR": "blue"}, echo=True)
    assert found == {"word": "blue"}
    assert "loud\nblue\n" in capsys.readouterr().out
    assert steps.failed == {}
    assert steps.took["one"]["seconds"] >= 0


def test_a_failure_is_told_with_its_last_lines_and_keeps_what_was_measured(tmp_path):
    steps = Steps(tmp_path, 60)
    code = "import sys; print(*'abcdefgh', sep='\\n'); sys.exit(3)"
    assert steps.run("bad", python(code), last_word) == {"word": "h"}
    assert steps.failed["bad"] == "bad ended with code 3. It last said: d | e | f | g | h"
    assert steps.run("good", python("print('fine')"), last_word) == {"word": "fine"}
    assert [*steps.failed] == ["bad"]


def test_a_process_without_a_result_has_failed(tmp_path):
    steps = Steps(tmp_path, 60)
    assert steps.run("mute", python(""), last_word) is None
    assert steps.failed["mute"] == "mute ended without a result. It last said: nothing"


def test_a_step_ends_at_its_limit_and_all_it_started_with_it(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "print(child.pid, flush=True)\ntime.sleep(99)"
    )
    steps = Steps(tmp_path, 3)
    found = steps.run("slow", python(code), last_word)
    assert found is not None
    assert steps.failed["slow"].startswith("slow was ended after its 3 s. It last said: ")
    assert gone(int(found["word"]))


def test_only_what_went_well_is_resumed_and_only_for_the_same_command(tmp_path):
    count = tmp_path / "count"
    code = f"open({str(count)!r}, 'a').write('x'); print('said')"

    def run(resume: bool, word: str = "", **environment: str) -> int:
        steps = Steps(tmp_path, 60, resume)
        found = steps.run("a", [*python(code), word], last_word, environment=environment)
        assert found == {"word": "said"}
        return len(count.read_text())

    assert run(resume=True) == 1
    assert run(resume=True) == 1
    assert run(resume=False) == 2
    assert run(resume=True, word="other") == 3
    assert run(resume=True, word="other", SKEW="0") == 4
    failing = python("print('said'); raise SystemExit(1)")
    for _ in range(2):
        steps = Steps(tmp_path, 60, resume=True)
        steps.run("b", failing, last_word)
        assert "b" in steps.failed


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_is_asked_to_end_ends_its_process_too(tmp_path, number):
    outer = (
        "import sys; from pathlib import Path; from hybridspec.bench.scripted.steps import Steps\n"
        "code = 'import os, time; print(os.getpid(), flush=True); time.sleep(99)'\n"
        f"Steps(Path({str(tmp_path)!r}), 90).run('s', [sys.executable, '-c', code], lambda s: None)"
    )
    process = subprocess.Popen(python(outer), stderr=subprocess.DEVNULL)
    log = tmp_path / "s.log"
    while not (log.exists() and log.read_text().strip()):
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, number)
    assert process.wait(30) != 0
    assert gone(int(log.read_text()))
