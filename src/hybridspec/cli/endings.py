"""How a command ends when it does not succeed: one sentence on stderr and an exit code."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

import typer

from hybridspec.cli.interrupts import INTERRUPTED
from hybridspec.cli.output import ReaderGone, note
from hybridspec.errors import HybridSpecError, OptionError

FLAGS = {
    "stop_token_ids": "stop_token_id",
    "schema": "json_schema",
    "names": "served_model_name",
    "allowed_hosts": "allowed_host",
}  # where names differ
DEFECT, REFUSED, READER_GONE = 1, 2, 141

# Newer typers carry their own copy of click, so its classes are reached through typer.
_ClickException = typer.BadParameter.__mro__[2]


def ending(error: BaseException) -> int:
    """Says what is to be said about `error`; returns the exit code."""
    if isinstance(error, ReaderGone):
        return READER_GONE
    if any(isinstance(e, KeyboardInterrupt | typer.Abort) for e in _chain(error)):
        return INTERRUPTED  # an import that is interrupted may raise another error from it
    sentence = _sentence(error)
    if sentence is None:
        note("Error: this is a defect of hybridspec. Please report it with all that follows.")
        note("".join(traceback.format_exception(error)).rstrip())
        return DEFECT
    note("Error: " + " ".join(sentence.split("\n")))
    return REFUSED


def _sentence(error: BaseException) -> str | None:
    """What is wrong and what to do, of an error that is the input's or the machine's; else None."""
    if isinstance(error, OptionError):
        return f"{flag(error.name)} {error.said}"
    if isinstance(error, HybridSpecError):
        return str(error)
    if isinstance(error, _ClickException):
        return _usage(error)
    if isinstance(error, OSError):
        return f"{_subject(error)}: {error.strerror or error}."
    if _out_of_memory(error):
        return (
            "There is not enough memory. Lower --max-context, take a narrower --dtype, or use a "
            "smaller model or another --device."
        )
    return None


def flag(name: str) -> str:
    """How the command line calls an option of the API; a repeatable one has a single value."""
    return "--" + FLAGS.get(name, name).replace("_", "-")


def _usage(error: BaseException) -> str:
    said = error.format_message().strip()  # type: ignore[attr-defined]
    said += "" if said.endswith((".", "?", "!")) else "."
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "hybridspec"
    return f"{said} See {command} --help."


def _subject(error: OSError) -> str:
    return str(error.filename) if error.filename is not None else "The system refused a request"


def _out_of_memory(error: BaseException) -> bool:
    """As `memory.is_full`, which needs torch; an error without it is no refusal of torch's."""
    if "torch" not in sys.modules:
        return isinstance(error, MemoryError)
    from hybridspec.memory import is_full

    return is_full(error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
