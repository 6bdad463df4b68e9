"""Many clients at once: every answer is that of its lone run, and afterwards all is as before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from hybridspec.bench.soak.asks import CONTEXT, asks
from hybridspec.bench.soak.load import Load, alone
from hybridspec.engine import Engine
from hybridspec.serving import Settings, create_app
from served import serve, until

HOST = "127.0.0.1"
MIB = 2**20
FULL = (pytest.mark.full, pytest.mark.timeout(1800))
ENDS = ("answered", "streamed", "left", "refused")


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def small():
    """A server whose kept prefixes and whose tokenizer's memory are soon what they will be."""
    engine = Engine.load(progress=False, max_context=CONTEXT, prefix_memory=16 * MIB)
    with serve(create_app(engine, Settings())) as made:
        yield made


@pytest.mark.parametrize(
    ("count", "clients", "kept"),
    [(24, 8, 32 * MIB), pytest.param(200, 32, 32 * MIB, marks=FULL)],
)
def test_many_clients_leave_nothing_behind(small, count, clients, kept):
    sizes = {"tokens": 24, "words": 60} if count < 200 else {}
    known = alone(HOST, small.port, asks(count // 2, seed=7, **sizes))
    load = Load(HOST, small.port, known, seed=7)
    load.run(clients, range(1000, 1000 + clients))  # their own memory is there from now on
    until(small.idle)
    threads, files, memory = threading.active_count(), descriptors(), resident()
    load.run(clients, range(count))
    assert load.tally.failed == 0, load.tally.faults
    assert load.tally.requests == count + clients
    assert min(load.tally.counts[kind] for kind in ENDS) > 0
    until(small.idle)
    until(lambda: descriptors() <= files)
    assert threading.active_count() <= threads + 8  # the loop keeps those that encode prompts
    assert resident() - memory < kept  # kept prefixes, the allocator's: a state has 16 MiB
