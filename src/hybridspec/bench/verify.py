"""`hybridspec bench verify`: do all decoding systems give the tokens of plain decoding?

python -m hybridspec.bench.verify --out results

Importing this imports no torch: `--help` is instant.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.bench.answering import (
    AnswerOptions,
    add_answers,
    add_out,
    check_temperature,
    names,
)
from hybridspec.bench.arguments import add_pair
from hybridspec.bench.command import decoding, ending
from hybridspec.bench.files import locked, write_atomically
from hybridspec.bench.parsing import Parser
from hybridspec.bench.prompts import read_prompts, select
from hybridspec.cli.output import note, write, write_json
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.bench.verification import Check

PROG = "python -m hybridspec.bench.verify"
RESULTS, ANSWERS = "verify.json", "verify.answers.jsonl"
DESCRIPTION = """\
Check that decoding systems give exactly the tokens of plain decoding (ar), greedy and drawn with
one seed. For each difference: its position, the token expected and the token found, and how near a
tie the two were under plain decoding. Besides, rounds run in other forms that must change nothing:
without the cut at the router boundary, and with all that Stage 0 has left of inputs past w
overwritten. No time is measured. Results go to DIR/verify.json, every answer to
DIR/verify.answers.jsonl; the same command goes on where a run was interrupted, and with other
--systems or --temperature adds to it."""
EPILOG = """\
A difference is a near tie if moving every logit by no more than a bound would make plain decoding
say the other token. The bound is 0 where tokens are promised bit for bit (on a CPU with the GDN
verifiers exact and per-token), 0.01 for the other verifiers and for a GPU in float32 and float64,
0.25 in the half types; --near-tie sets one bound for all. Near ties are reported and are no
failure. The last line on stdout is one JSON document.

Exit code: 0 when no answer differs by more than a near tie, 1 when some do, 2 for what cannot be
used, 130 after Ctrl-C, 141 when the reader of stdout went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions(AnswerOptions):
    """Options of `hybridspec bench verify`; see its help. No systems means all that are served."""

    systems: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = (0.0, 1.0)
    near_tie: float | None = None
    forms: bool = True

    def __post_init__(self) -> None:
        AnswerOptions.__post_init__(self)
        for value in self.temperatures:
            check_temperature(value)
        if not self.temperatures or len(set(self.temperatures)) < len(self.temperatures):
            raise RequestError("--temperature names none or one twice; expected such as 0,1.")
        if self.near_tie is not None and not 0 <= self.near_tie < float("inf"):
            raise RequestError(f"--near-tie is {self.near_tie}; expected a number from 0.")


def main(arguments: Sequence[str] | None = None, prog: str = PROG) -> int:
    """Parse, check, report; the exit code is as the help says."""
    return ending(lambda: decoding(verify, parse(arguments, prog)))


def parse(arguments: Sequence[str] | None, prog: str = PROG) -> VerifyOptions:
    """The options of a command line. Wrong syntax exits with code 2.

    Raises:
        RequestError: a value out of range.
    """
    values = vars(_parser(prog).parse_args(arguments))
    values["systems"] = tuple(dict.fromkeys(names(values["systems"])))
    values["categories"] = names(values["categories"])
    values["temperatures"] = _temperatures(values.pop("temperature"))
    return VerifyOptions(**values)


def verify(options: VerifyOptions) -> int:
    """Decode what is not decoded yet, compare, write DIR/verify.json and print the report.

    Returns:
        0 when no answer differs by more than a near tie, 1 when some do, 130 when interrupted.

    Raises:
        HybridSpecError: bad input, or results that cannot be kept. ReaderGone: as `output.write`.
    """
    prompts = select(
        read_prompts(options.prompts),
        split=options.split,
        categories=options.categories,
        limit=options.limit,
    )
    with locked(options.out):
        from hybridspec.bench.verification import Check

        check = Check(options, prompts, options.out / ANSWERS)
        try:
            results = check.run()
        except KeyboardInterrupt:
            note(_interrupted(check))
            return 130
        return _report(results, options.out / RESULTS)


def _report(results: dict[str, Any], path: Path) -> int:
    from hybridspec.bench.verify_report import lines, summary

    write_atomically(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write("\n".join(lines(results)) + f"\nAll differences: {path}.\n")
    write_json(json.dumps(summary(results, str(path)), ensure_ascii=False) + "\n")
    return 0 if results["lossless"] else 1


def _interrupted(check: Check) -> str:
    return (
        f"Interrupted after {check.done} of {len(check.schedule)} answers, kept in "
        f"{check.lines.path}. The same command goes on from there."
    )


def _temperatures(text: str) -> tuple[float, ...]:
    try:
        return tuple(map(float, names(text)))
    except ValueError:
        raise RequestError(
            f"--temperature is {text!r}; expected numbers from 0 with commas, such as 0,1."
        ) from None


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is checked")
    what.add_argument(
        "--systems",
        metavar="A,B",
        default="",
        help="any of generate's (all kinds that the pair and its profile serve)",
    )
    add_answers(what, 256)
    what.add_argument(
        "--temperature",
        metavar="T,T",
        default="0,1",
        help="0 is greedy, else answers are sampled at T without filters (%(default)s: both)",
    )
    what.add_argument(
        "--seed", metavar="N", type=int, default=0, help="of sampled answers (%(default)s)"
    )
    what.add_argument(
        "--near-tie", metavar="E", type=float, help="one bound for all systems, in logits (below)"
    )
    what.add_argument(
        "--no-forms", dest="forms", action="store_false", help="leave out the other forms of rounds"
    )
    add_pair(parser)
    add_out(parser.add_argument_group("results"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
