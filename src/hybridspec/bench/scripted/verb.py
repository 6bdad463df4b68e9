"""`hybridspec bench scripted`, without what it takes to run: importing this imports no torch."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hybridspec.bench.command import ending
from hybridspec.bench.gpu import require
from hybridspec.bench.parsing import Parser
from hybridspec.bench.scripted.paper import CATEGORIES, PAIRS

NAME = "scripted.json"
SCHEMA = "hybridspec.bench.scripted/1"
PROG = "python -m hybridspec.bench.scripted"
TRACES = Path(__file__).with_name("traces.npz")
SYSTEMS = (
    "ar", "dflash", "length16", "static", "dcut", "evict", "replayssm", "evict+replayssm",
    "nominal-only", "hybridspec",
)  # fmt: skip
ROUTINGS = ("skewed", "uniform")
LAUNCHERS = ("host", "loop", "switch", "eager")
SMALLER = "Free memory on the device, or lower --context and --tokens."
DESCRIPTION = """\
Decode with the full shape of Qwen3.5/3.6-35B-A3B on weights made from a seed, whose text is known,
and with drafts that are right as often as published for each category. All work is real: the
drafter's, verification, acceptance, commit. Every system is calibrated on this machine, then all
of them answer in turn. A run whose tokens are not the known ones, or whose states are not those of
plain decoding, ends with an error; so does one whose checks overlook a wrong commit.

With --sglang, SGLang's engine is timed between two runs of ours, on the same shape.

--small is a shape that a CPU runs in a minute: it shows that it works, its figures mean nothing."""


def parser(prog: str | None) -> argparse.ArgumentParser:
    """Its options."""
    made = Parser(
        prog=prog or PROG, description=DESCRIPTION, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = made.add_argument
    add("--out", metavar="PATH", type=Path, help=f"folder for {NAME}, or a file that ends in .json")
    add("--routing", choices=ROUTINGS, default="skewed", help="of the experts (%(default)s)")
    add(
        "--pair", choices=PAIRS, default=PAIRS[0], help="whose acceptance drafts have (%(default)s)"
    )
    add(
        "--systems", metavar="A,B", type=names, default=SYSTEMS,
        help=f"names as of `generate --system`; ar is always among them ({','.join(SYSTEMS)})",
    )  # fmt: skip
    add(
        "--categories", metavar="A,B", type=names, default=CATEGORIES,
        help=f"some of {', '.join(CATEGORIES)}",
    )  # fmt: skip
    add(
        "--launcher", choices=LAUNCHERS, default=LAUNCHERS[0],
        help="who leads from round to round, as of `Engine` (%(default)s)",
    )  # fmt: skip
    add("--context", metavar="N", type=count, help="tokens of the prompt (512; small: 24)")
    add("--answers", metavar="N", type=count, help="of a category (2; small: 1)")
    add("--tokens", metavar="N", type=count, help="of an answer (512; small: 40)")
    add(
        "--calibration-tokens", metavar="N", type=count,
        help="of an answer timed for calibration (128; small: 12)",
    )  # fmt: skip
    add(
        "--traces",
        metavar="FILE",
        type=Path,
        default=TRACES,
        help="recorded answers (the package's)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of the weights (%(default)s)")
    add("--small", action="store_true", help="a small shape")
    _add_sglang(made)
    return made


def _add_sglang(made: argparse.ArgumentParser) -> None:
    """Options of a run beside SGLang."""
    group = made.add_argument_group("SGLang beside (ours, SGLang, ours again, each a process)")
    add = group.add_argument
    add("--sglang", metavar="SITE", type=Path, help="patched SGLang, unpacked; needs --peers")
    add("--peers", metavar="DIR", type=Path, help="folder of bench_sglang.py")
    add(
        "--sglang-modes", metavar="A,B", type=names, default=("ar", "dflash16"),
        help="some of ar, dflash4, dflash8, dflash16 (ar,dflash16)",
    )  # fmt: skip
    add(
        "--sglang-count", action="store_true",
        help="count its distinct experts, in further runs: counting slows",
    )  # fmt: skip
    add(
        "--sglang-skew", metavar="S", type=float,
        help="sigma of its router rows' sizes (skewed: 1, uniform: 0)",
    )  # fmt: skip
    add(
        "--step-seconds", metavar="N", type=count, default=600,
        help="most of each process (%(default)s)",
    )  # fmt: skip
    add(
        "--resume", action="store_true",
        help="keep the steps that an earlier call of the same options has finished",
    )  # fmt: skip


def names(listed: str) -> tuple[str, ...]:
    """Of a list A,B, each once."""
    return tuple(dict.fromkeys(n for part in listed.split(",") if (n := part.strip())))


def count(text: str) -> int:
    """A number from 1 on, or argparse's error."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"is {value}; expected at least 1")
    return value


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Run it; 0, or 2 after an error."""
    given = parser(prog).parse_args(arguments)

    def run() -> int:
        led = given.launcher != "host"
        require("bench scripted", "--small", small=given.small, kernels=led)
        if given.sglang is not None:
            from hybridspec.bench.scripted.beside import run as beside

            return beside(given, NAME)
        from hybridspec.bench.scripted.main import run as bench

        return bench(given)

    return ending(run, SMALLER)
