"""What a server says where no connection can be taken."""

from __future__ import annotations

import asyncio
import errno

import pytest

from hybridspec.serving.ending import Told


@pytest.mark.parametrize(("number", "lines"), [(errno.EMFILE, 1), (errno.EIO, 50)])
def test_many_failures_to_accept_are_one_line(caplog, number, lines):
    loop, told = asyncio.new_event_loop(), Told()
    loop.set_exception_handler(told)
    for _ in range(50):
        loop.call_exception_handler({"message": "accept", "exception": OSError(number, "no")})
    loop.close()
    assert len(caplog.records) == lines
