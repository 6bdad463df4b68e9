"""Programs that a model wrote, run against tests: in a process of their own, within limits.

This is no sandbox. The program runs as this user: it may read this user's files and use the
network. What it gets is an empty folder, an environment without this process's variables, a limit
of time, memory, file size and open files, and no way to start processes (which does not hold for
root). Nothing here runs unless the user asks for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Literal

from hybridspec.errors import RequestError

Verdict = Literal["passed", "failed", "out of time"]
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
MIB = 1 << 20

# Reads the program from standard input, sets the limits, takes its own output away from the
# program, and tells this process afterwards, in a word that the program does not know, that the
# program came to its end: to exit early is not to pass.
LAUNCHER = """\
import json, os, resource, sys
task = json.load(sys.stdin)
said = os.dup(1)
nowhere = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nowhere, stream)
seconds, memory = task["seconds"], task["memory"]
limits = {
    "RLIMIT_CPU": seconds + 1, "RLIMIT_AS": memory, "RLIMIT_FSIZE": 1 << 20, "RLIMIT_NOFILE": 32,
    "RLIMIT_NPROC": 0, "RLIMIT_CORE": 0,
}
for name, value in limits.items():
    if hasattr(resource, name):
        hard = resource.getrlimit(getattr(resource, name))[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(getattr(resource, name), (value, value))
word, source = task.pop("word"), task.pop("source")
exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
os.write(said, word.encode())
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one program: seconds on the clock and MiB of address space."""

    seconds: int = 10
    memory_mib: int = 1024


def run_program(source: str, limits: Limits) -> Verdict:
    """Run a program to its end.

    Raises:
        RequestError: no process can be started.
    """
    word = secrets.token_hex(16)
    task = {"source": source, "word": word, "seconds": limits.seconds}
    task["memory"] = limits.memory_mib * MIB
    with tempfile.TemporaryDirectory(prefix="hybridspec-code-") as empty:
        process = _start(empty)
        try:
            told, _ = process.communicate(json.dumps(task).encode(), timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            return "out of time"
        finally:
            _end(process)
    return "passed" if told == word.encode() else "failed"


def check_runs(limits: Limits) -> None:
    """Refuse a machine or limits under which not even a right program passes.

    Raises:
        RequestError: an empty program does not pass, or a wrong one does.
    """
    if run_program("assert sum([1, 2]) == 3", limits) != "passed":
        raise RequestError(
            f"Code cannot be run here: a program of one line does not pass within "
            f"{limits.seconds} s and {limits.memory_mib} MiB. Raise --code-seconds or "
            "--code-memory, or leave out --run-code."
        )
    if run_program("assert sum([1, 2]) == 4", limits) != "failed":
        raise RequestError("Code cannot be judged here: a wrong program passes.")


def _start(folder: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-B", "-c", LAUNCHER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env=ENVIRONMENT,
            start_new_session=True,
        )
    except OSError as error:
        raise RequestError(f"Code cannot be run here: {error.strerror}.") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
