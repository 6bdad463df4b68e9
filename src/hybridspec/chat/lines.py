"""The user's messages: typed at a terminal, or the lines of a file or pipe."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Protocol

from hybridspec.cli.output import note
from hybridspec.errors import RequestError

PROMPT, FURTHER = "> ", "... "


class Lines(Protocol):
    """Where lines come from."""

    def read(self, prompt: str) -> str | None:
        """The next line without its end; None after the last."""


class Typed:
    """Lines typed at a terminal, with a history and editing where Python has readline."""

    def __init__(self) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401 - `input` uses it from now on
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="surrogateescape")  # what is no text is told as such

    def read(self, prompt: str) -> str | None:
        """As `Lines.read`. Ctrl-D at the beginning of a line is the end."""
        shown = sys.stdout is not None and sys.stdout.isatty()
        if not shown:  # the answers go elsewhere; the prompt must not
            print(prompt, end="", file=sys.stderr, flush=True)
        try:
            return _unicode(os.fsencode(input(prompt if shown else "")))
        except EOFError:
            note("")
            return None


class Piped:
    """The lines of standard input that is no terminal."""

    def read(self, prompt: str) -> str | None:
        """As `Lines.read`; nothing is prompted."""
        line = b"" if sys.stdin is None else sys.stdin.buffer.readline()
        return _unicode(line).rstrip("\r\n") if line else None


def read_message(lines: Lines) -> str | None:
    """The next message: a line, and the next one too where a line ends in a backslash."""
    said = lines.read(PROMPT)
    while said is not None and said.endswith("\\"):
        said = f"{said[:-1]}\n{lines.read(FURTHER) or ''}"
    return said


def _unicode(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The line is not valid UTF-8 at byte offset {error.start}; expected UTF-8 text."
        ) from None
