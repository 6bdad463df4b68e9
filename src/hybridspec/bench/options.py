"""What the user asks of the speed bench. Imports no torch: `--help` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridspec.bench import prompts
from hybridspec.errors import RequestError

WARMUP = 8  # the first generations run cold: half as fast in a reported case
SWEEP = ("ar", *(f"static:{w}" for w in (2, 3, 4, 5, 6, 7, 8, 12, 16)), "dflash")

DESCRIPTION = """\
Measure decoding systems against each other on the same prompts, greedily, and check that all give
the same tokens. The systems take turns, prompt by prompt. Results go to DIR/speed.json; a run that
was interrupted goes on where it stopped when the same command is given again."""
EPILOG = """\
Counting: W and w count target inputs of a round, the anchor and w - 1 drafts; an acceptance of A
drafts emits A + 1 tokens. Speed is all decode tokens over all decode seconds; a decode token is any
after an answer's first. The last line on stdout is one JSON document.

Exit code: 0 when all answers are equal, 1 when some differ, 2 for bad input, 130 after Ctrl-C."""


@dataclass(frozen=True, slots=True)
class SpeedOptions:
    """Options of `hybridspec bench speed`; see its help. `chat` None follows the checkpoint."""

    out: Path
    systems: tuple[str, ...] = ("ar", "static:4", "dflash")
    prompts: Path = prompts.DEFAULT
    split: str | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = None
    model: str | None = None
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    threads: int | None = None
    max_tokens: int = 256
    repeats: int = 1
    warmup: int = WARMUP
    chat: bool | None = None
    thinking: bool = False
    startup: bool = False
    plot: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        least = {
            "--max-tokens": (self.max_tokens, 2, "the first token is not decoded but prefilled"),
            "--repeats": (self.repeats, 1, "each system has to run"),
            "--warmup": (self.warmup, WARMUP, "the first generations run cold and are discarded"),
            "--threads": (self.threads, 1, "that many do the work"),
            "--limit": (self.limit, 1, "the bench needs a prompt"),
        }
        for name, (value, minimum, reason) in least.items():
            if value is not None and value < minimum:
                raise RequestError(f"{name} is {value}; expected at least {minimum}: {reason}.")
        if self.thinking and self.chat is False:
            raise RequestError("--thinking is for chat prompts; leave it out or leave out --raw.")
        if not self.systems:
            raise RequestError("--systems names none; expected names such as ar,static:4,dflash.")
        twice = [name for name in self.systems if self.systems.count(name) > 1]
        if twice:
            raise RequestError(f"--systems names {twice[0]} twice; expected each one once.")

    @property
    def baseline(self) -> str:
        """The system that the others are compared with: plain decoding, else the first."""
        return "ar" if "ar" in self.systems else self.systems[0]


def parse(arguments: Sequence[str] | None, prog: str) -> SpeedOptions:
    """The options of a command line. Wrong syntax exits with code 2.

    Raises:
        RequestError: a value out of range.
    """
    values = vars(_parser(prog).parse_args(arguments))
    values["systems"] = _systems(values["systems"])
    values["categories"] = _names(values["categories"])
    return SpeedOptions(**values)


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_what(parser.add_argument_group("what is measured"))
    _add_where(parser.add_argument_group("the pair and the machine"))
    _add_how(parser.add_argument_group("how it is measured"))
    return parser


def _add_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--systems",
        metavar="A,B",
        default="ar,static:4,dflash",
        help="ar, static:W, dflash, or sweep for ar, dflash and all useful W (%(default)s)",
    )
    add(
        "--prompts",
        metavar="FILE",
        type=Path,
        default=prompts.DEFAULT,
        help=f"JSONL, a line {prompts.SHAPE} (the 21 of the package)".replace("%", "%%"),
    )
    add("--split", metavar="NAME", help="only prompts whose split is NAME")
    add("--categories", metavar="A,B", default="", help="only prompts of these categories")
    add("--limit", metavar="N", type=int, help="at most N prompts; the categories take turns")
    add("--max-tokens", metavar="N", type=int, default=256, help="longest answer (%(default)s)")
    chat = group.add_mutually_exclusive_group()
    chat.add_argument(
        "--chat",
        action="store_true",
        default=None,
        help="prompts through the chat template (the default where the checkpoint has one)",
    )
    chat.add_argument("--raw", dest="chat", action="store_false", help="prompts as plain text")
    add("--thinking", action="store_true", help="let the chat template ask for thoughts first")


def _add_where(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--model", metavar="PATH", help="target folder or Hub id (the embedded pair)")
    add("--draft", metavar="PATH", help="drafter folder or Hub id")
    add("--revision", metavar="REV", help="revision of --model on the Hub")
    add("--draft-revision", metavar="REV", help="revision of --draft on the Hub")
    add("--device", default="auto", help="cpu, cuda, cuda:1 (a GPU where there is one)")
    add("--dtype", default="auto", help="float32, bfloat16, float16, float64 (by the device)")
    add("--threads", metavar="N", type=int, help="CPU threads (torch's own choice)")


def _add_how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--out", metavar="DIR", type=Path, required=True, help="folder of the results")
    add("--repeats", metavar="N", type=int, default=1, help="runs of everything (%(default)s)")
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
