"""Options and command line of `hybridspec bench profile`. Imports no torch: `--help` is instant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hybridspec.bench import prompts
from hybridspec.bench.arguments import add_pair, add_prompts
from hybridspec.bench.options import PairOptions, within
from hybridspec.bench.parsing import Parser
from hybridspec.errors import RequestError

LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 16)
MOST = 16  # target inputs of the longest verification
PROMPTS, TOKENS = 10, 32  # the paper's profile (appendix D.1): ten prompts, 32 tokens each

DESCRIPTION = f"""\
Measure what a verification call is spent on, by its length w: GDN, mixture of experts, softmax
attention and the rest of the target, and the drafter beside it (the paper's Figure 1 and Table 4,
with their fits). Plain decoding's own answers are walked; at every position every length verifies
the same drafts from the same state, in another order each time, and one token is kept. Results go
to DIR/components.json. By default {PROMPTS} prompts."""
EPILOG = """\
Counting: w counts target inputs of a verification, the anchor and w - 1 drafts. A verification is
Stage 0 and Stage 1; neither the choice of a length nor the commit is in it. Every call is also
timed as a whole without the wrappers that tell components apart: `overhead` says what those cost.
The last line on stdout is one JSON document.

Exit code: 0 when measured, 2 for what cannot be used, 130 after Ctrl-C (nothing is kept then), 141
when the reader of stdout went away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileOptions(PairOptions):
    """Options of `hybridspec bench profile`; see its help. `lengths` None is as many of LENGTHS as
    the drafter's block allows."""

    out: Path
    lengths: tuple[int, ...] | None = None
    verifier: str = "exact"
    prompts: Path = prompts.DEFAULT
    split: str | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = PROMPTS
    max_tokens: int = TOKENS
    plot: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        PairOptions.__post_init__(self)
        within("--max-tokens", self.max_tokens, 2, None, "the first token is prefilled")
        within("--limit", self.limit, 1, None, "a profile needs a prompt")
        for w in self.lengths or ():
            within("--lengths", w, 1, MOST, "w counts the anchor and at most 15 drafts")
        if self.lengths is not None and len(set(self.lengths)) < len(self.lengths or "-"):
            raise RequestError(
                f"--lengths is {','.join(map(str, self.lengths))!r}; expected lengths such as "
                "2,4,8,16, each once."
            )


def parse(arguments: Sequence[str] | None, prog: str) -> ProfileOptions:
    """The options of a command line. Wrong syntax exits with code 2.

    Raises:
        RequestError: a value out of range.
    """
    values = vars(_parser(prog).parse_args(arguments))
    values["lengths"] = _lengths(values["lengths"])
    values["categories"] = _listed(values["categories"])
    return ProfileOptions(**values)


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
    _add_results(parser.add_argument_group("results"))
    parser.set_defaults(limit=PROMPTS)
    return parser


def _add_what(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    default = ",".join(map(str, LENGTHS))
    add("--lengths", metavar="W,W", help=f"lengths ({default}, as far as the drafter's block goes)")
    add(
        "--verifier",
        metavar="NAME",
        default="exact",
        help="of the GDN layers: exact, block, per-token, replay (%(default)s)",
    )
    add_prompts(group)
    add("--max-tokens", metavar="N", type=int, default=TOKENS, help="longest answer (%(default)s)")


def _add_results(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--out", metavar="DIR", type=Path, required=True, help="folder of the results")
    add("--plot", action="store_true", help="draw them as PNG and SVG (needs matplotlib)")
    add("--force", action="store_true", help="replace what DIR holds of an earlier profile")


def _lengths(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(sorted(map(int, _listed(text))))
    except ValueError:
        raise RequestError(
            f"--lengths is {text!r}; expected whole numbers with commas, such as 2,4,8,16."
        ) from None


def _listed(text: str) -> tuple[str, ...]:
    return tuple(name for part in text.split(",") if (name := part.strip()))
