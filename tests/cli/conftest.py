"""Runs command lines in this process, on pairs made once."""

from __future__ import annotations

import io
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from disk_pair import DiskPair, write_pair
from hybridspec.cli.main import run


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        assert self.code == 0, self.err
        assert self.out.endswith("}\n")
        return json.loads(self.out)

    def refused(self, *words: str) -> None:
        """It ended with one sentence that holds these words, and nothing else."""
        assert (self.code, self.out) == (2, ""), self
        assert self.err.startswith("Error: ")
        assert self.err.endswith(".\n")
        assert self.err.count("\n") == 1
        for word in words:
            assert word in self.err


Command = Callable[..., Outcome]


@pytest.fixture
def command(monkeypatch) -> Command:
    """`command(*arguments, stdin=bytes)`."""

    def call(*arguments: str, stdin: bytes = b"") -> Outcome:
        streams = {name: io.BytesIO() for name in ("stdout", "stderr")} | {
            "stdin": io.BytesIO(stdin)
        }
        with monkeypatch.context() as patch:
            for name, raw in streams.items():
                patch.setattr(sys, name, io.TextIOWrapper(raw, "utf-8"))
            code = run(arguments)
            sys.stdout.flush()
            sys.stderr.flush()
            texts = [streams[name].getvalue().decode() for name in ("stdout", "stderr")]
        return Outcome(code, *texts)

    return call


@pytest.fixture(scope="session")
def pair(tmp_path_factory) -> Callable[..., DiskPair]:
    """`pair(head, template=True)` of `disk_pair.write_pair`; shared, so do not change it."""
    made: dict[tuple[str, bool], DiskPair] = {}

    def find(head: str, template: bool = True) -> DiskPair:
        key = (head, template)
        if key not in made:
            made[key] = write_pair(tmp_path_factory.mktemp(head), head, template=template)
        return made[key]

    return find


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that spin for each other make a tiny model slow on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _ctrl_c():
    """Ctrl-C as in a process started from a terminal, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
