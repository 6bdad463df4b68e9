"""How far a run is, on stderr: a line rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

LINES = 20  # about as many lines as a whole run writes to a file


class Progress:
    """Call it before each step with the step's name; use it as a context to end the line."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total, self._done = total, 0
        self._stream = stream or sys.stderr
        self._terminal = self._stream is not None and self._stream.isatty()
        self._every = max(1, total // LINES)
        self._began = time.monotonic()

    def __call__(self, step: str) -> None:
        """A step begins."""
        line = f"[{self._done + 1}/{self._total}] {step}{self._left()}"
        if self._terminal:
            self._write(f"\r\x1b[K{line}")
        elif self._done % self._every == 0:
            self._write(f"{line}\n")
        self._done += 1

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._done:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        """A stream that is closed, full or gone is no reason to stop measuring."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.write(text)
                self._stream.flush()

    def _left(self) -> str:
        """Time left if the other steps take as long as those done; nothing before there are any."""
        if not self._done:
            return ""
        seconds = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        minutes, rest = divmod(round(seconds), 60)
        return f", about {minutes} min left" if minutes else f", about {rest} s left"
