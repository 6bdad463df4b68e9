"""The command line of the speed bench. Imports no torch: `--help` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hybridspec.bench import prompts
from hybridspec.bench.options import (
    ABLATION,
    DEFAULT_SYSTEMS,
    MAX_TOKENS,
    PROCESSES,
    WARMUP,
    WHOLE,
    SpeedOptions,
)
from hybridspec.bench.parsing import Parser
from hybridspec.errors import RequestError

SWEEP = ("ar", *(f"static:{w}" for w in (2, 3, 4, 5, 6, 7, 8, 12, 16)), "dflash")

DESCRIPTION = """\
Measure decoding systems against each other on the same prompts, and check that all give the same
tokens, greedy or drawn with one seed. The systems take turns, prompt by prompt. Results go to
DIR/speed.json, their tables in Markdown to DIR/speed.md, every generation to
DIR/speed.records.jsonl. The same command goes on where a run was interrupted, or adds --repeats
(--processes, if it began with these), --startup and --plot to a finished one. What would not
compare is refused: other options, prompts, checkpoints or code, another machine, or another number
of threads (--threads, or OMP_NUM_THREADS where torch chooses). A prompt too long for the context is
skipped and reported.

The paper's tables: 1 is --systems ar,dflash,dcut,evict,replayssm,evict+replayssm,hybridspec; 2 the
same with --categories that the profile was not calibrated on; 3 is --ablation; 6 is 1 with
--temperature 1."""
EPILOG = """\
Counting: W and w count target inputs of a round, the anchor and w - 1 drafts; an acceptance of A
drafts emits A + 1 tokens. Speed is all decode tokens over all decode seconds; a decode token is any
after an answer's first. AL (acceptance length) is the tokens a round emits, SR the speed over that
of ar, Avg. the mean over categories. The last line on stdout is one JSON document.

Exit code: 0 when no answer differs, 1 when some do, 2 for what cannot be used, 130 after Ctrl-C,
141 when the reader of stdout went away."""


def parse(arguments: Sequence[str] | None, prog: str) -> SpeedOptions:
    """The options of a command line. Wrong syntax exits with code 2.

    Raises:
        RequestError: a value out of range.
    """
    values = vars(_parser(prog).parse_args(arguments))
    values["systems"] = _chosen(values["systems"], values["ablation"])
    values["categories"] = _names(values["categories"])
    return SpeedOptions(**values)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = Parser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser.add_argument_group("what is measured"))
    add_pair(parser)
    _add_how(parser.add_argument_group("how it is measured"))
    return parser


def _add_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--systems",
        metavar="A,B",
        help="any of generate's, or sweep for ar, dflash and all useful static:W "
        f"({','.join(DEFAULT_SYSTEMS)})",
    )
    add(
        "--ablation",
        action="store_true",
        help=f"instead of --systems: {WHOLE} and what the paper's Table 3 puts in place of its "
        f"parts, {', '.join(ABLATION)}; the gain is the SR of {WHOLE} over theirs",
    )
    add_prompts(group)
    add(
        "--turns",
        choices=("first", "all"),
        default="first",
        help="all: an answer to each turn, after the turns before it (%(default)s)",
    )
    add(
        "--max-tokens",
        metavar="N",
        type=int,
        help=f"longest answer ({MAX_TOKENS['cuda']} on a GPU, as in the paper, {MAX_TOKENS['cpu']} "
        "on a CPU)",
    )
    _add_form(group)


def _add_form(group: argparse._ArgumentGroup) -> None:
    """How prompts are put and answers are drawn."""
    add = group.add_argument
    add(
        "--temperature",
        metavar="T",
        type=float,
        default=0.0,
        help="0 is greedy, else answers are sampled at T without filters (%(default)s)",
    )
    add("--seed", metavar="N", type=int, default=0, help="of sampled answers (%(default)s)")
    chat = group.add_mutually_exclusive_group()
    chat.add_argument(
        "--chat",
        action="store_true",
        default=None,
        help="prompts through the chat template (the default where the checkpoint has one)",
    )
    chat.add_argument("--raw", dest="chat", action="store_false", help="prompts as plain text")
    add(
        "--thinking",
        action="store_true",
        help="let the chat template ask for thoughts first, as in the paper; `calibrate` does not",
    )


def add_prompts(group: argparse._ArgumentGroup) -> None:
    """Which prompts of which file."""
    add = group.add_argument
    add(
        "--prompts",
        metavar="FILE",
        type=Path,
        default=prompts.DEFAULT,
        help=f"JSONL, a line {prompts.SHAPE}, parquet with these columns, or a data set on the Hub "
        "that you may read, such as hub:nvidia/SPEED-Bench/qualitative (the 21 of the package)",
    )
    add(
        "--split",
        metavar="NAME",
        help="only prompts of this split (calibration and test are halves where rows name none)",
    )
    add("--categories", metavar="A,B", default="", help="only prompts of these categories")
    add("--limit", metavar="N", type=int, help="at most N prompts; the categories take turns")


def add_pair(parser: argparse.ArgumentParser) -> None:
    """The options of `PairOptions`."""
    add = parser.add_argument_group("the pair and the machine").add_argument
    add("--model", metavar="PATH", help="target folder or Hub id (the embedded pair)")
    add("--draft", metavar="PATH", help="drafter folder or Hub id")
    add("--revision", metavar="REV", help="revision of --model on the Hub")
    add("--draft-revision", metavar="REV", help="revision of --draft on the Hub")
    add("--device", default="auto", help="cpu, cuda, cuda:1 (a GPU where there is one)")
    add("--dtype", default="auto", help="float32, bfloat16, float16, float64 (by the device)")
    add(
        "--profile",
        metavar="FILE",
        type=Path,
        help="calibration profile of the pair on this device (the embedded pair's own)",
    )
    add(
        "--threads",
        metavar="N",
        type=int,
        help="CPU threads (OMP_NUM_THREADS, else by torch)",
    )


def _add_how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--out", metavar="DIR", type=Path, required=True, help="folder of the results")
    times = group.add_mutually_exclusive_group()
    times.add_argument(
        "--repeats", metavar="N", type=int, help="runs of everything, in one process (1)"
    )
    times.add_argument(
        "--processes",
        metavar="N",
        type=int,
        help="runs of everything, each in a fresh process, pooled; 0 for none "
        f"({PROCESSES['cuda']} on a GPU, as in the paper, {PROCESSES['cpu']} on a CPU)",
    )
    add(
        "--warmup",
        metavar="N",
        type=int,
        default=WARMUP,
        help=f"generations run first and discarded, at least {WARMUP} (%(default)s)",
    )
    add(
        "--startup",
        action="store_true",
        help="first measure process start to first token, and memory, of `hybridspec generate`",
    )
    add("--plot", action="store_true", help="draw the results as PNG and SVG (needs matplotlib)")
    add("--force", action="store_true", help="discard what DIR holds of an earlier bench")


def _chosen(named: str | None, ablation: bool) -> tuple[str, ...]:
    """The systems that a command line means."""
    if ablation and named is not None:
        raise RequestError("--ablation has its own systems; leave out --systems, or --ablation.")
    if ablation:
        return ("ar", WHOLE, *ABLATION)
    return DEFAULT_SYSTEMS if named is None else _systems(named)


def _systems(text: str) -> tuple[str, ...]:
    """Names in order; `sweep` stands for its list, without those that are named besides."""
    names = _names(text)
    if "sweep" not in names:
        return names
    at = names.index("sweep")
    rest = names[:at] + names[at + 1 :]
    return names[:at] + tuple(s for s in SWEEP if s not in rest) + names[at + 1 :]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
