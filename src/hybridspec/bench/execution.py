"""Programs that a model wrote, run against tests: in a process of their own, within limits.

This is no sandbox. The program runs as this user: it may read this user's files and use the
network. What it gets is an empty folder, an environment without this process's variables, a limit
of time, memory, file size and open files, and no way to start processes (which does not hold for
root; what root's program starts in a session of its own outlives it). Nothing here runs unless the
user asks for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hybridspec.errors import RequestError

Verdict = Literal["passed", "failed", "out of time"]
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}
MIB = 1 << 20
MOST_HEARD = 64  # bytes: more than the word, so that a longer message is never taken for it
PATIENCE = 60  # seconds that the end of a killed process or the removal of a folder may take

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
    with _empty_folder() as empty:
        process, pipe = _start(empty, json.dumps(task).encode())
        try:
            heard = _hear(pipe, limits.seconds)
        finally:
            os.close(pipe)
            _end(process)
    if heard is None:
        return "out of time"
    return "passed" if heard == word.encode() else "failed"


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


@contextlib.contextmanager
def _empty_folder() -> Iterator[str]:
    """A folder that is removed afterwards, as far as it can be: the verdict does not depend on it.

    `rm` needs neither a stack frame nor an open file for every level, as `shutil.rmtree` does.
    """
    try:
        folder = tempfile.mkdtemp(prefix="hybridspec-code-")
    except OSError as error:
        raise RequestError(f"Code cannot be run here: {error.strerror}.") from None
    try:
        yield folder
    finally:
        if not _done("rm", "-rf", "--", folder):  # folders that the program has locked
            _done("chmod", "-R", "u+rwx", "--", folder)
            _done("rm", "-rf", "--", folder)


def _done(*command: str) -> bool:
    """Whether a command ended well in time. What it says is of no use to anyone."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return not subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        ).returncode
    return False


def _start(folder: str, task: bytes) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and the end of a pipe on which it speaks.

    The task is a file, not a pipe: nothing here waits for a process to read.
    """
    try:
        with tempfile.TemporaryFile() as file:
            file.write(task)
            file.seek(0)
            pipe, theirs = os.pipe()
            try:
                return _launch(folder, file.fileno(), theirs), pipe
            except OSError:
                os.close(pipe)
                raise
            finally:
                os.close(theirs)
    except OSError as error:
        raise RequestError(f"Code cannot be run here: {error.strerror}.") from None


def _launch(folder: str, task: int, said: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-B", "-c", LAUNCHER],
        stdin=task,
        stdout=said,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        env=ENVIRONMENT,
        start_new_session=True,
    )


def _hear(pipe: int, seconds: float) -> bytes | None:
    """What is said until every process has closed the pipe, at most MOST_HEARD bytes of it; None
    when the time is up before. Whatever the program starts may keep the pipe open for ever.
    """
    heard, end = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as ready:
        ready.register(pipe, selectors.EVENT_READ)
        while len(heard) < MOST_HEARD:
            left = end - time.monotonic()
            if left <= 0 or not ready.select(left):
                return None
            more = os.read(pipe, MOST_HEARD - len(heard))
            if not more:
                break
            heard += more
    return heard


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(PATIENCE)
