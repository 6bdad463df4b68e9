"""Many clients at once: every answer is that of its lone run, and afterwards all is as before."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import httpx
import pytest
from load import Load, request, text_of
from served import until

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
    warm = Load(served.url, 0.0)
    warm.run(range(1000, 1000 + 2 * clients), clients)  # their own memory is there from now on
    threads, memory = threading.active_count(), resident()
    load = Load(served.url, 0.4)
    load.run(range(count), clients)
    assert sum(load.ends.values()) == count
    assert min(load.ends.values()) > count // 8
    until(served.idle)
    for number, text in load.texts.items():
        lone = httpx.post(
            f"{served.url}/v1/chat/completions",
            json={**request(number), "stream": False, "system": "ar"},
            timeout=600,
        )
        assert text == text_of(lone.json()), number
    assert served.idle()
    assert threading.active_count() <= threads + 8  # the loop keeps those that encode prompts
    assert resident() - memory < kept  # the allocator's: a state that is kept would be 100 MiB
