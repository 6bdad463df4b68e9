"""The bench's command lines: what is wrong with one is a sentence, as everywhere else."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from hybridspec.cli.output import note, write


class Parser(argparse.ArgumentParser):
    """argparse, whose own way to write passes over a stream that is closed or full."""

    def print_help(self, file: Any = None) -> None:
        """Write the help to stdout, whose end may be gone."""
        write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Say in a sentence what is wrong with the line, and exit with code 2."""
        said = " ".join(message.split()).removeprefix("argument ").rstrip(".")
        note(f"Error: {said}. See {self.prog} --help.")
        self.exit(2)
