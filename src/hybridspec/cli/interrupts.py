"""Ctrl-C where Python cannot raise it safely: while modules are imported, and at the very end.

An extension module that is interrupted while it is imported turns the interrupt into another error,
or into nothing; so it is noted there and raised afterwards.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False  # as type checkers know it; to import `typing` takes time
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

INTERRUPTED = 130  # the exit code: 128 and the number of SIGINT


class held_back:  # in small letters like the context managers of contextlib
    """Within it Ctrl-C waits until the end, and a second Ctrl-C ends the process at once.

    A handler that somebody else set stays in force, and so does SIGINT ignored, as in a background
    job of a shell.

    Raises:
        KeyboardInterrupt: at the end, if Ctrl-C came; whatever else was raised is its context.
    """

    def __enter__(self) -> None:
        self._asked = False
        self._ours = _replace_default(self._note)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            os._exit(INTERRUPTED)
        self._asked = True


def let_go() -> None:
    """The work is done: from here on Ctrl-C ends the process without a word."""
    _replace_default(signal.SIG_DFL)


def _replace_default(handler: Callable[[int, FrameType | None], Any] | signal.Handlers) -> bool:
    """Sets the handler if nobody else did; tells whether it is in force."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, handler)
    except ValueError:  # not in the main thread, where alone Ctrl-C arrives
        return False
    return True
