"""Standard output and standard error of a command."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from hybridspec.errors import HybridSpecError


class ReaderGone(Exception):
    """Nobody reads standard output any more, as after `| head`: there is no point in going on."""


def write(text: str) -> None:
    """Writes to standard output at once. A character its encoding lacks becomes "?".

    Raises:
        ReaderGone: the other end of a pipe is closed. HybridSpecError: it cannot be written to.
    """
    _write(text, {"errors": "replace"})


def write_json(text: str) -> None:
    """Writes a JSON document to standard output, in UTF-8 whatever the terminal's encoding.

    Raises as `write`.
    """
    # A lone surrogate, possible in a file's name, becomes the escape that JSON has for it.
    _write(text, {"encoding": "utf-8", "errors": "backslashreplace"})


def note(line: str) -> None:
    """A line on standard error. If that is closed there is nobody to tell."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def _write(text: str, form: dict[str, str]) -> None:
    stream = sys.stdout
    if stream is None:
        raise HybridSpecError("Standard output is closed; the answer has no place to go.")
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(**form)  # type: ignore[arg-type]
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _discard()
        raise ReaderGone from None
    except OSError as error:
        _discard()
        raise HybridSpecError(
            f"The answer cannot be written to standard output: {error.strerror}."
        ) from None


def _discard() -> None:
    """What is still in the buffer goes nowhere, or Python would fail again when it exits."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
