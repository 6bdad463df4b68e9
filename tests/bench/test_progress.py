from __future__ import annotations

import io
import sys

from hybridspec.bench.progress import LINES, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_line_is_rewritten_and_cleared():
    stream = Terminal()
    with Progress(2, stream) as step:
        step("one")
        step("two")
    first, second, last = stream.getvalue().split("\r\x1b[K")[1:]
    assert first == "[1/2] one"
    assert second.startswith("[2/2] two, about ")
    assert last == ""


def test_a_file_gets_a_line_now_and_then():
    stream = io.StringIO()
    total = 10 * LINES
    with Progress(total, stream) as step:
        for i in range(total):
            step(str(i))
    lines = stream.getvalue().splitlines()
    assert len(lines) == LINES
    assert lines[1].startswith(f"[11/{total}] 10, about ")


def test_time_left_is_that_of_the_steps_done(monkeypatch):
    now = iter((0.0, 100.0, 130.0))
    monkeypatch.setattr("hybridspec.bench.progress.time.monotonic", lambda: next(now))
    stream = io.StringIO()
    step = Progress(4, stream)
    for name in ("a", "b", "c"):
        step(name)
    assert stream.getvalue().splitlines() == [
        "[1/4] a",
        "[2/4] b, about 5 min left",  # 100 s a step, three to go
        "[3/4] c, about 2 min left",  # 65 s a step, two to go
    ]


class Full(Terminal):
    def write(self, text):
        raise OSError(28, "No space left on device")


def test_a_stream_that_takes_nothing_stops_nothing(monkeypatch):
    with Progress(2, Full()) as step:
        step("one")
    monkeypatch.setattr(sys, "stderr", None)  # closed before Python started
    with Progress(2) as step:
        step("one")
