"""The command line of the kernels' bench. Imports no torch: `--help` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hybridspec.bench.parsing import Parser
from hybridspec.kernels.bench.parts import PARTS

NAME = "kernels.json"
PROG = "python -m hybridspec.kernels.bench"
DESCRIPTION = """\
Check the GPU kernels against plain torch in float64, then time them: replays of a CUDA graph over
weights and states that take turns through more memory than a cache holds, medians of 30 samples,
everything twice. cuBLAS stands beside the products, SGLang's kernels (--peers) beside the GDN
verifiers and the experts. A part that fails is reported and the others go on. Results are written
after each part: a run that was stopped is gone on with by the same command and --resume.

Without a GPU, --shape small runs all of it once through Triton's interpreter: that shows that it
runs, its figures mean nothing."""
EPILOG = """\
Exit code: 0 when all ran and all checks held, 1 when not, 2 for what cannot be used."""


def parser(prog: str | None, shapes: Sequence[str]) -> argparse.ArgumentParser:
    """Its options."""
    made = Parser(
        prog=prog or PROG, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = made.add_argument
    add("--out", metavar="PATH", type=Path, help=f"folder for {NAME}, or a file that ends in .json")
    add("--shape", choices=shapes, default="35b", help="whose sizes (%(default)s)")
    add(
        "--parts", metavar="NAME", nargs="*", choices=PARTS,
        help=f"only these, in this order: {', '.join(PARTS)}",
    )  # fmt: skip
    add(
        "--without", metavar="NAME", nargs="*", choices=PARTS, default=[],
        help="all parts but these",
    )  # fmt: skip
    add("--resume", action="store_true", help="go on: skip the parts that --out holds already")
    add(
        "--seconds", metavar="N", type=float,
        help="begin no part later than this after the start",
    )  # fmt: skip
    add(
        "--peers", metavar="DIR", type=Path,
        help="folder with SGLang's kernels, as docs/kernels.md says",
    )  # fmt: skip
    add("--sweeps", type=int, choices=(1, 2), default=2, help="how often to time (%(default)s)")
    add("--defaults", action="store_true", help="time each kernel's default cut alone: no sweeps")
    return made
