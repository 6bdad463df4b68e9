"""`hybridspec bench kernels`: GPU kernels, checked and timed. Importing this imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.bench.command import ending
from hybridspec.bench.gpu import require
from hybridspec.kernels.bench.verb import parser

SHAPES = ("35b", "small")
SMALLER = "Free memory on the device, or leave parts out with --without."


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Check, time, report; the exit code is as the help says."""
    given = parser(prog, SHAPES).parse_args(arguments)
    return ending(lambda: kernels(list(arguments or []), prog, given.shape), SMALLER)


def kernels(arguments: list[str], prog: str | None, shape: str) -> int:
    """Run the bench, interpreted where there is no GPU.

    Raises:
        RequestError: there is no GPU, and the shape is not the interpreter's.
    """
    require("bench kernels", "--shape small", small=shape == "small")
    from hybridspec.kernels.bench.main import main as bench

    return bench(arguments, prog)
