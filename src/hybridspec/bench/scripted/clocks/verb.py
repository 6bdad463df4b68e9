"""The command line of the clocks. Imports no torch: `--help` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hybridspec.bench.command import ending
from hybridspec.bench.files import CLOCKS
from hybridspec.bench.gpu import require
from hybridspec.bench.parsing import Parser
from hybridspec.bench.scripted.clocks.parts import ON_REQUEST, PARTS
from hybridspec.bench.scripted.verb import SMALLER, TRACES, count, names

PROG = "python -m hybridspec.bench.scripted.clocks"
SYSTEMS = ("ar", "static:4", "hybridspec", "dflash")
LAUNCHERS = ("loop", "switch", "host")
DESCRIPTION = """\
Where the time of a round goes, on the scripted 35B pair: gaps between rounds by the card's clock,
launchers and verifiers against each other, starting. A part that fails is reported and the others
go on. Results are written after each part: the same command with --resume goes on.

--small is a pair of two layers that a CPU interprets: it shows that it works, its figures mean
nothing."""
EPILOG = "Exit code: 0 when all parts ran, 1 when not, 2 for what cannot be used."


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """Its options."""
    made = Parser(
        prog=prog or PROG, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = made.add_argument
    add(
        "--out",
        metavar="PATH",
        type=Path,
        help=f"folder for {CLOCKS}, or a file that ends in .json",
    )
    add(
        "--parts", metavar="NAME", nargs="*", choices=PARTS,
        default=[name for name in PARTS if name not in ON_REQUEST],
        help=f"only these, in this order: {', '.join(PARTS)} (all but {', '.join(ON_REQUEST)})",
    )  # fmt: skip
    add("--resume", action="store_true", help="go on: skip the parts that --out holds already")
    add("--seconds", metavar="N", type=float, help="begin no part later than this after the start")
    add(
        "--launcher", choices=LAUNCHERS, default=LAUNCHERS[0],
        help="of the parts that compare no launchers (%(default)s)",
    )  # fmt: skip
    add(
        "--launchers", metavar="A,B", type=_launchers, default=LAUNCHERS,
        help=f"to compare, the first the one that others are held against ({','.join(LAUNCHERS)})",
    )  # fmt: skip
    add(
        "--systems", metavar="A,B", type=names,
        help=f"names as of `generate --system` ({','.join(SYSTEMS)}; small: the first two)",
    )  # fmt: skip
    add("--context", metavar="N", type=count, help="tokens of the prompt (512; small: 12)")
    add("--tokens", metavar="N", type=count, help="of an answer (96; small: 6)")
    add("--turns", metavar="N", type=count, help="answers of each variant (5; small: 2)")
    add("--traces", metavar="FILE", type=Path, default=TRACES, help="recorded answers")
    add("--seed", metavar="N", type=int, default=0, help="of the weights (%(default)s)")
    add("--small", action="store_true", help="a pair of two layers")
    return made


def _launchers(text: str) -> tuple[str, ...]:
    listed = names(text)
    for name in listed:
        if name not in LAUNCHERS:
            known = ", ".join(LAUNCHERS)
            raise argparse.ArgumentTypeError(f"names {name!r}; expected some of {known}")
    return listed


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run it; 0, 1 where a part did not run, 2 after an error."""
    given = parser(prog).parse_args(arguments)

    def run() -> int:
        require("The bench of clocks", "--small", small=given.small)
        from hybridspec.bench.scripted.clocks.main import run as clocks

        return clocks(given)

    return ending(run, SMALLER)
