"""A server in a process of its own, and what the operating system says of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hybridspec.bench.soak.client import Client
from hybridspec.errors import HybridSpecError

HOST = "127.0.0.1"
GAUGES = {"waiting": "num_requests_waiting", "running": "num_requests_running"}


@dataclass(frozen=True, slots=True)
class Figures:
    """A server at one time.

    Attributes:
        seconds: of a monotonic clock.
        memory: resident bytes.
        threads, files: of its process; connections are files.
        waiting, running: requests in the line and at the engine.
    """

    seconds: float
    memory: int
    threads: int
    files: int
    waiting: int
    running: int


class Server:
    """A server that has been started and serves."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        """process: of the command. port: where it listens on the loopback."""
        self.process, self.port = process, port

    def figures(self) -> Figures:
        """As it is now. Linux only: read from /proc."""
        folder = Path(f"/proc/{self.process.pid}")
        files = len(os.listdir(folder / "fd"))  # before the connection for the next lines is one
        status = folder.joinpath("status").read_text(encoding="utf-8")
        found = dict(line.split(":", 1) for line in status.splitlines())
        with Client(HOST, self.port) as client:
            gauges = client.get("/metrics").splitlines()
        queue = {name: int(_gauge(gauges, metric)) for name, metric in GAUGES.items()}
        return Figures(
            time.monotonic(),
            int(found["VmRSS"].split()[0]) * 1024,
            int(found["Threads"]),
            files,
            **queue,
        )

    def rest(self, seconds: float = 120.0) -> Figures:
        """Figures once nobody waits and the engine is at rest, or after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            time.sleep(0.5)  # connections that have just ended are closed by then
            figures = self.figures()
            if not (figures.waiting or figures.running) or time.monotonic() > end:
                return figures

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def serving(arguments: Sequence[str] = (), port: int = 0) -> Iterator[Server]:
    """`hybridspec serve` until the end of the context.

    Args:
        arguments: of the command.
        port: 0 takes a free one.

    Raises:
        HybridSpecError: it does not come to serve.
    """
    command = [sys.executable, "-m", "hybridspec", "serve", "--host", HOST, "--port", str(port)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        try:
            yield Server(process, _port(process, errors))
        finally:
            process.kill()


def _port(process: subprocess.Popen[str], errors: IO[str]) -> int:
    """Where it listens, once it serves: it says so in two lines."""
    assert process.stdout is not None
    listening, ready = process.stdout.readline(), process.stdout.readline()
    if not ready:
        process.wait()
        errors.seek(0)
        said = errors.read().strip().removeprefix("Error: ")
        raise HybridSpecError(f"The server did not start. {said}")
    return int(listening.split(";")[0].rsplit(":", 1)[1])


def _gauge(lines: Sequence[str], name: str) -> float:
    [line] = [line for line in lines if f":{name}{{" in line]
    return float(line.split()[-1])
