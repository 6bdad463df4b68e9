from __future__ import annotations

import sys

import pytest

from hybridspec.checkpoint.progress import progress_bar


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)

    def isatty(self):
        return True


def run(show):
    with progress_bar("Loading x", 4_000_000, show) as advance:
        advance(1_000_000)
        advance(3_000_000)


@pytest.mark.parametrize(("tty", "show"), [(False, None), (False, False), (True, False)])
def test_silent_unless_asked_or_on_a_terminal(capsys, monkeypatch, tty, show):
    if tty:
        monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    run(show)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("tty", "show"), [(True, None), (False, True)])
def test_a_bar_on_stderr_that_ends_full(capsys, monkeypatch, tty, show):
    if tty:
        monkeypatch.setattr(sys, "stderr", Terminal(sys.stderr))
    run(show)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Loading x" in err
    assert "4.0/4.0 MB" in err
