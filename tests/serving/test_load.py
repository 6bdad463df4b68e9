"""Many clients at once: every answer is that of its lone run, and afterwards all is as before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from served import until

from hybridspec.bench.soak.asks import asks
from hybridspec.bench.soak.load import Load, alone

HOST = "127.0.0.1"
MIB = 2**20


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("count", "clients", "kept"),
    [(24, 8, 32 * MIB), pytest.param(200, 32, 32 * MIB, marks=pytest.mark.full)],
)
def test_many_clients_leave_nothing_behind(served, count, clients, kept):
    small = {"tokens": 24, "words": 60} if count < 200 else {}
    known = alone(HOST, served.port, asks(count // 2, seed=7, **small))
    load = Load(HOST, served.port, known, seed=7)
    load.run(clients, range(1000, 1000 + clients))  # their own memory is there from now on
    until(served.idle)
    threads, files, memory = threading.active_count(), descriptors(), resident()
    load.run(clients, range(count))
    assert load.tally.failed == 0, load.tally.faults
    assert load.tally.requests == count + clients
    assert min(load.tally.counts[kind] for kind in ENDS) > 0
    until(served.idle)
    until(lambda: descriptors() <= files)
    assert threading.active_count() <= threads + 8  # the loop keeps those that encode prompts
    assert resident() - memory < kept  # the allocator's: a state that is kept would be 100 MiB


ENDS = ("answered", "streamed", "left", "refused")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
