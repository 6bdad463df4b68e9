"""Processes one after the other, each with a time limit, its output and its result in a folder.

So the GPU's memory is free for each, and what is measured outlives whatever fails after it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

from hybridspec.bench.files import write_atomically
from hybridspec.errors import HybridSpecError

LAST = 5  # lines of a failed process's output that are told
POLL_SECONDS = 0.1
Result = dict[str, Any]


@dataclass
class Steps:
    """Runs steps by name.

    Attributes:
        folder: for NAME.log, all that a step said, and NAME.step.json, its result.
        seconds: most that a step may take.
        resume: take results that an earlier call has left there for the same command.
        took: when each step began, and its seconds. failed: the sentence of each that did.
    """

    folder: Path
    seconds: float
    resume: bool = False
    took: dict[str, Result] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def run(
        self, name: str, command: Sequence[str], read: Callable[[str], Result | None], *,
        environment: Mapping[str, str] | None = None, echo: bool = False,
    ) -> Result | None:  # fmt: skip
        """Run a command.

        Args:
            name: of the step.
            command: program and arguments.
            read: what was measured, from what the process said; None if that is nothing.
            environment: variables in place of this process's own.
            echo: whether to pass on what the process says.

        Returns:
            What was measured, of a process that failed too; None if nothing was.
        """
        environment = environment or {}
        asked = [*command, *(f"{key}={value}" for key, value in environment.items())]
        kept = self.folder / f"{name}.step.json"
        if self.resume and (found := _kept(kept, asked)) is not None:
            say(f"{name}: measured by an earlier call, {found['began']}\n")
            self.took[name] = {"began": found["began"], "seconds": found["seconds"]}
            return dict(found["result"])
        kept.unlink(missing_ok=True)
        log = self.folder / f"{name}.log"
        say(f"{name}: started; its output is in {log}\n")
        at, began = datetime.now(UTC).isoformat(timespec="seconds"), time.perf_counter()
        trouble = _run(command, {**os.environ, **environment}, log, self.seconds, echo)
        self.took[name] = {"began": at, "seconds": round(time.perf_counter() - began, 1)}
        return self._end(name, asked, read, log, trouble)

    def _end(
        self, name: str, asked: Sequence[str], read: Callable[[str], Result | None], log: Path,
        trouble: str | None,
    ) -> Result | None:  # fmt: skip
        """The result of a process that has ended, kept if there was no trouble."""
        said, took = log.read_text(encoding="utf-8", errors="replace"), self.took[name]
        result = read(said)
        if trouble is None and result is None:
            trouble = "ended without a result"
        if trouble is None:
            body = {"asked": asked, **took, "result": result}
            write_atomically(self.folder / f"{name}.step.json", json.dumps(body) + "\n")
            say(f"{name}: done in {took['seconds']:.0f} s\n")
        else:
            last = " | ".join([line for line in said.splitlines() if line.strip()][-LAST:])
            self.failed[name] = f"{name} {trouble}. It last said: {last or 'nothing'}"
            say(f"FAILED: {self.failed[name]}\n")
        return result


def _kept(path: Path, asked: Sequence[str]) -> Result | None:
    """What an earlier call has left for the same command."""
    try:
        found: Result = json.loads(path.read_text(encoding="utf-8"))
        return found if found["asked"] == list(asked) else None
    except (OSError, ValueError, KeyError):
        return None


def _run(
    command: Sequence[str], environment: Mapping[str, str], log: Path, seconds: float, echo: bool
) -> str | None:
    """Run a process to its end or the limit; why it failed, as the rest of a sentence."""
    with log.open("wb") as file, _ended_together():
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
            env=environment, start_new_session=True,
        )  # fmt: skip
        try:
            code = _wait(process, log, seconds, echo)
        finally:
            _end_all(process)
    if code is None:
        return f"was ended after its {seconds:.0f} s"
    return f"ended with code {code}" if code else None


def _wait(process: subprocess.Popen[bytes], log: Path, seconds: float, echo: bool) -> int | None:
    """Its exit code, or None at the limit."""
    end = time.monotonic() + seconds
    with log.open("rb") as said:
        while (code := process.poll()) is None and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            _pass_on(said.read() if echo else b"")
        _pass_on(said.read() if echo else b"")
    return code


def _end_all(process: subprocess.Popen[bytes]) -> None:
    """End what the process has left behind, itself included: it would hold the GPU's memory."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def _ended_together() -> Iterator[None]:
    """A request to end is an interrupt, so that the process at work does not stay behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def say(text: str) -> None:
    """Tell people, at once.

    Raises:
        HybridSpecError: standard output cannot be written to.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise HybridSpecError(f"Standard output cannot be written to: {error.strerror}.") from None


def _pass_on(said: bytes) -> None:
    if said:
        say(said.decode(errors="replace"))
