"""Ctrl-C while modules are imported. Extension modules drop it or make another error of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from hybridspec.cli import interrupts
from hybridspec.cli.interrupts import held_back, let_go

# Ctrl-C comes when {module} is looked for, as often as told, and is dropped as told.
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            try:
                for _ in range({times}):
                    signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                {reaction}
            print("went on")

sys.meta_path.insert(0, Interrupting())
from hybridspec.cli.main import main
main()
"""


def interrupted(module: str, times: int, reaction: str = "pass") -> tuple[int, str, str]:
    program = PROGRAM.format(module=module, times=times, reaction=reaction)
    done = subprocess.run(
        [sys.executable, "-u", "-c", program, "generate", "x", "-n", "1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("reaction", ["pass", "raise ImportError(name) from None"])
@pytest.mark.parametrize("module", ["typer", "torch", "numpy", "tokenizers"])
def test_ctrl_c_while_importing_ends_quietly_afterwards(module, reaction):
    assert interrupted(module, 1, reaction) == (130, "went on\n", "")


@pytest.mark.parametrize("module", ["typer", "numpy"])
def test_a_second_one_ends_at_once(module):
    assert interrupted(module, 2) == (130, "", "")


def test_the_entry_point_takes_little_time():
    """What runs before Ctrl-C is taken care of: of ours and the standard library, no more."""
    program = (
        "import sys; before = set(sys.modules); import hybridspec.cli.main; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name for name in done.stdout.split() if name.startswith("hybridspec")}
    assert loaded == {
        "hybridspec",
        "hybridspec.cli",
        "hybridspec.cli.main",
        "hybridspec.cli.interrupts",
    }
    assert not {"typer", "typing", "re", "json", "pathlib"} & set(done.stdout.split())


@pytest.mark.usefixtures("_ctrl_c")
def test_it_is_raised_at_the_end_and_then_means_what_it_did():
    steps = []

    def work():
        with held_back():
            signal.raise_signal(signal.SIGINT)
            steps.append("went on")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_ctrl_c")
def test_a_second_one_does_not_wait(monkeypatch):
    class Exited(Exception):
        pass

    def leave(code):
        raise Exited(code)

    monkeypatch.setattr(interrupts.os, "_exit", leave)

    def work():
        with held_back():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as raised:
        work()
    assert raised.value.__context__.args == (130,)


@pytest.mark.usefixtures("_ctrl_c")
@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_another_handler_stays(handler):
    signal.signal(signal.SIGINT, handler)
    with held_back():
        assert signal.getsignal(signal.SIGINT) is handler
    let_go()
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("_ctrl_c")
def test_in_another_thread_nothing_is_set():
    seen = []

    def work():
        with held_back():
            seen.append(signal.getsignal(signal.SIGINT))
        let_go()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler] == [signal.getsignal(signal.SIGINT)]


@pytest.mark.usefixtures("_ctrl_c")
def test_after_the_work_it_is_the_system_s(monkeypatch):
    let_go()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
