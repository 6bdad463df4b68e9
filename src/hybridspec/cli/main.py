"""The command `hybridspec`, and what each way to end gives as exit code.

0 the work is done; 2 the input cannot be used, said in one sentence on stderr; 130 interrupted;
141 the reader of standard output went away; 1 a defect of ours, with a traceback, or a check of
`doctor` that failed.

Little is imported here, so that Ctrl-C is taken care of as soon as Python runs any of this.
"""

from __future__ import annotations

import sys

from hybridspec.cli.interrupts import INTERRUPTED, held_back, let_go

TYPE_CHECKING = False  # as type checkers know it; `typing` takes a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn


def run(arguments: Sequence[str]) -> int:
    """Runs one command line, without the program's name; returns the exit code."""
    try:
        with held_back():
            from hybridspec.cli.app import app
            from hybridspec.cli.endings import ending
    except KeyboardInterrupt:
        return INTERRUPTED
    try:
        code = app(list(arguments), prog_name="hybridspec", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return ending(error)
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Runs the command line of this process."""
    try:
        code = run(sys.argv[1:])
        let_go()
    except KeyboardInterrupt:  # between two of the places that await it
        code = INTERRUPTED
    sys.exit(code)
