"""Where things go: what is said to standard output, thoughts and all else to standard error."""

from __future__ import annotations

import contextlib
import os
import sys

from hybridspec.cli.output import note, write
from hybridspec.text.reasoning import ReasoningSplitter, Split, Thought

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def colours() -> bool:
    """Whether standard error is a terminal that dims text, and nobody asked for plain text."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stderr is not None and sys.stderr.isatty() and not plain


class Hearing:
    """One answer on its way to the screen.

    Attributes:
        split: all that was thought and said.
    """

    def __init__(self, thought: Thought) -> None:
        """Take where the answer begins: `thought_after` the prompt."""
        self._splitter = ReasoningSplitter(thought)
        self._dim = colours()
        self.split = Split()

    def take(self, text: str) -> None:
        """Shows a piece of the answer."""
        self._show(self._splitter.push(text))

    def end(self) -> None:
        """Shows what was held back, and ends the line."""
        self._show(self._splitter.finish())
        if self.split.content and not self.split.content.endswith("\n"):
            write("\n")
        elif self.split.reasoning and not self.split.content:
            note("")

    def _show(self, piece: Split) -> None:
        if piece.reasoning:
            _aside(f"{DIM}{piece.reasoning}{PLAIN}" if self._dim else piece.reasoning)
        if piece.content:
            if self.split.reasoning and not self.split.content:
                _aside("\n\n")
            write(piece.content)
        before = self.split
        self.split = Split(before.reasoning + piece.reasoning, before.content + piece.content)


def _aside(text: str) -> None:
    """Text on standard error, as it comes."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(text, end="", file=sys.stderr, flush=True)
