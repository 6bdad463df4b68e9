"""`hybridspec bench kernels`: GPU kernels, checked and timed. Importing this imports no torch."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hybridspec.bench.command import ending
from hybridspec.errors import RequestError
from hybridspec.kernels.bench.verb import parser

SHAPES = ("35b", "small")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Check, time, report; the exit code is as the help says."""
    given = parser(prog, SHAPES).parse_args(arguments)
    return ending(lambda: kernels(list(arguments or []), prog, given.shape))


def kernels(arguments: list[str], prog: str | None, shape: str) -> int:
    """Run the bench, interpreted where there is no GPU.

    Raises:
        RequestError: there is no GPU, and the shape is not the interpreter's.
    """
    import torch

    if not torch.cuda.is_available():
        if shape != "small":
            raise RequestError(
                "bench kernels needs a CUDA GPU, and torch finds none here; --shape small runs it "
                "through Triton's interpreter, without meaningful figures."
            )
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined, which is next
    from hybridspec.kernels.bench.main import main as bench

    return bench(arguments, prog)
