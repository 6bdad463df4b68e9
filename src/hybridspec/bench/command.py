"""How every verb of the bench ends: an exit code, and a sentence where something is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from hybridspec.cli.output import ReaderGone, note
from hybridspec.errors import HybridSpecError

Options = TypeVar("Options")


def decoding(verb: Callable[[Options], int], options: Options) -> int:
    """Run a verb that decodes, once torch is imported with Ctrl-C held back."""
    from hybridspec.cli.loading import import_engine

    import_engine()
    return verb(options)


def ending(verb: Callable[[], int], smaller: str | None = None) -> int:
    """Run a verb; its exit code, or 2 after an error, 130 after Ctrl-C, 141 without a reader.

    Args:
        smaller: what to do where memory does not suffice; None leaves that error to the caller.
    """
    try:
        if sys.stdout is None:
            raise HybridSpecError(
                "Standard output is closed; the report has no place to go. Send it to a file, or "
                "to /dev/null."
            )
        return verb()
    except HybridSpecError as error:
        note("Error: " + " ".join(str(error).split("\n")))
        return 2
    except KeyboardInterrupt:
        note("Interrupted before anything was measured.")
        return 130
    except ReaderGone:  # the results are on disk
        return 141
    except (MemoryError, RuntimeError) as error:  # torch refuses memory by the latter
        if smaller is None or not _is_full(error):
            raise
        note(f"Error: There is not enough memory. {smaller}")
        return 2


def _is_full(error: Exception) -> bool:
    from hybridspec.memory import is_full

    return is_full(error)
