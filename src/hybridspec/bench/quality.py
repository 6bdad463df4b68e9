"""`hybridspec bench quality`: does a system answer as many questions rightly as plain decoding?

python -m hybridspec.bench.quality --prompts gsm8k.jsonl --out results

The paper's check of task quality (appendix D.3, second step); the statistics are in `paired.py`,
the rules of judging in `grading.py`. Importing this imports no torch: `--help` is instant.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
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
from hybridspec.bench.execution import Limits
from hybridspec.bench.files import locked, write_atomically
from hybridspec.bench.options import within
from hybridspec.bench.parsing import Parser
from hybridspec.bench.prompts import read_prompts, select
from hybridspec.cli.output import note, write, write_json
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.bench.exam import Exam

PROG = "python -m hybridspec.bench.quality"
RESULTS, ANSWERS = "quality.json", "quality.answers.jsonl"
MARGIN = 1.0  # points, the paper's
LEAST_MARGIN = 0.001  # points: to show it takes 270,000 questions at least
DESCRIPTION = """\
Ask questions that have answers, with a system and with plain decoding, and compare how many each
answers rightly: the paired difference of the shares, and its one-sided 95% lower bound against a
margin (the paper's appendix D.3: 1,319 GSM8K problems, a margin of -1 point). A row of the prompt
file is a question if it has `answer` (a number, a choice such as (B), a word or a text; GSM8K,
BIG-Bench Hard, MMLU) or `test` and `entry_point` (code, as HumanEval has them); other rows are
counted and left out. Results go to DIR/quality.json, every answer to DIR/quality.answers.jsonl;
the same command goes on where a run was interrupted."""
EPILOG = """\
Sampled answers (--temperature) are drawn with seeds that differ between the two systems and from
question to question. With common seeds a lossless system gives the very same answers, and a
difference of zero would say nothing of the distribution; that check is `bench verify`.

--run-code runs programs that the model wrote, on this machine and as this user. They get a process
of their own in an empty folder, none of your environment variables, and limits of time, memory and
file size. THIS IS NO SANDBOX: such a program can read your files and use the network. Run it where
neither matters. Without the flag rows of code are left out.

Exit code: 0 when the bound lies above the margin, 1 when it does not (too few questions can be a
reason), 2 for what cannot be used, 130 after Ctrl-C, 141 when the reader of stdout went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityOptions(AnswerOptions):
    """Options of `hybridspec bench quality`; see its help. `margin` is in points."""

    max_tokens: int = 1024
    system: str = "hybridspec"
    baseline: str = "ar"
    temperature: float = 0.0
    margin: float = MARGIN
    run_code: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        AnswerOptions.__post_init__(self)
        check_temperature(self.temperature)
        within("--code-seconds", self.limits.seconds, 1, 3600, "a program must end")
        within("--code-memory", self.limits.memory_mib, 64, 1 << 20, "Python itself needs some")
        if not LEAST_MARGIN <= self.margin < 100:
            raise RequestError(
                f"--margin is {self.margin}; expected points, {LEAST_MARGIN} or more and below 100."
            )
        # `Path.exists` raises for a name that is too long; `read_prompts` says what is wrong there.
        name = str(self.prompts)
        if os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)):
            raise RequestError(
                f"The prompt file {self.prompts} is a pipe or a device, and is read twice; "
                "expected a regular file. Write the rows to one first."
            )


def main(arguments: Sequence[str] | None = None, prog: str = PROG) -> int:
    """Parse, ask, report; the exit code is as the help says."""
    return ending(lambda: decoding(quality, parse(arguments, prog)))


def parse(arguments: Sequence[str] | None, prog: str = PROG) -> QualityOptions:
    """The options of a command line. Wrong syntax exits with code 2.

    Raises:
        RequestError: a value out of range.
    """
    values = vars(_parser(prog).parse_args(arguments))
    values["categories"] = names(values["categories"])
    values["limits"] = Limits(values.pop("code_seconds"), values.pop("code_memory"))
    return QualityOptions(**values)


def quality(options: QualityOptions) -> int:
    """Ask what is not asked yet, judge, write DIR/quality.json and print the report.

    Returns:
        0 when the bound lies above the margin, 1 when it does not, 130 when interrupted.

    Raises:
        HybridSpecError: bad input, or results that cannot be kept. ReaderGone: as `output.write`.
    """
    every = read_prompts(options.prompts)  # --limit is of questions: `Exam` sees to it
    prompts = select(every, split=options.split, categories=options.categories)
    with locked(options.out):
        from hybridspec.bench.exam import Exam

        exam = Exam(options, prompts, options.out / ANSWERS)
        try:
            results = exam.run()
        except KeyboardInterrupt:
            note(_interrupted(exam))
            return 130
        return _report(results, options.out / RESULTS)


def _report(results: dict[str, Any], path: Path) -> int:
    from hybridspec.bench.quality_report import lines, summary

    write_atomically(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write("\n".join(lines(results)) + f"\nEvery question: {path}.\n")
    write_json(json.dumps(summary(results, str(path)), ensure_ascii=False) + "\n")
    return 0 if results["not_inferior"] else 1


def _interrupted(exam: Exam) -> str:
    return (
        f"Interrupted after {exam.done} of {len(exam.schedule)} answers, kept in "
        f"{exam.lines.path}. The same command goes on from there."
    )


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_argument_group("what is asked")
    add = what.add_argument
    add("--system", metavar="NAME", default="hybridspec", help="any of generate's (%(default)s)")
    add(
        "--baseline",
        metavar="NAME",
        default="ar",
        help="what it is compared with (%(default)s; the paper's GSM8K run has dflash)",
    )
    add_answers(what, 1024)
    add(
        "--temperature",
        metavar="T",
        type=float,
        default=0.0,
        help="0 is greedy, else answers are sampled at T, each with its own seed (%(default)s)",
    )
    add("--seed", metavar="N", type=int, default=0, help="the seeds are made from it (%(default)s)")
    add(
        "--margin",
        metavar="POINTS",
        type=float,
        default=MARGIN,
        help="how much worse counts as no worse: fix it before you look (%(default)s)",
    )
    _add_code(parser.add_argument_group("code that the model wrote"))
    add_pair(parser)
    add_out(parser.add_argument_group("results"))
    return parser


def _add_code(group: argparse._ArgumentGroup) -> None:
    add, limits = group.add_argument, Limits()
    add(
        "--run-code",
        action="store_true",
        help="run it to judge rows with `test`; this is no sandbox, see below",
    )
    add(
        "--code-seconds",
        metavar="N",
        type=int,
        default=limits.seconds,
        help="time of one program (%(default)s)",
    )
    add(
        "--code-memory",
        metavar="MIB",
        type=int,
        default=limits.memory_mib,
        help="memory of one program (%(default)s)",
    )


if __name__ == "__main__":
    sys.exit(main())
