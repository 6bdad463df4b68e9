"""Options of the verbs that look at answers, not at times: which prompts, how long, where to.

Imports no torch: `--help` is instant.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from hybridspec.bench import prompts
from hybridspec.bench.arguments import add_prompts
from hybridspec.bench.options import MAX_TEMPERATURE, PairOptions, within
from hybridspec.errors import RequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions(PairOptions):
    """Options that `verify` and `quality` share; see their help. `chat` None follows the
    checkpoint.
    """

    out: Path
    prompts: Path = prompts.DEFAULT
    split: str | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = None
    max_tokens: int = 256
    seed: int = 0
    chat: bool | None = None
    thinking: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        PairOptions.__post_init__(self)
        within("--max-tokens", self.max_tokens, 2, None, "the first token is prefilled")
        within("--seed", self.seed, 0, 2**63 - 1, "random numbers are counted from it")
        within("--limit", self.limit, 1, None, "the bench needs a prompt")
        if self.thinking and self.chat is False:
            raise RequestError("--thinking is for chat prompts; leave it out or leave out --raw.")


def add_answers(group: argparse._ArgumentGroup, max_tokens: int) -> None:
    """Prompts, their form, and the length of answers."""
    add_prompts(group)
    group.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        default=max_tokens,
        help="longest answer (%(default)s)",
    )
    chat = group.add_mutually_exclusive_group()
    chat.add_argument(
        "--chat",
        action="store_true",
        default=None,
        help="prompts through the chat template (the default where the checkpoint has one)",
    )
    chat.add_argument("--raw", dest="chat", action="store_false", help="prompts as plain text")
    group.add_argument(
        "--thinking", action="store_true", help="let the chat template ask for thoughts first"
    )


def add_out(group: argparse._ArgumentGroup) -> None:
    """Where results go."""
    group.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="folder of the results"
    )
    group.add_argument(
        "--force", action="store_true", help="discard what DIR holds of an earlier run of this verb"
    )


def names(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(name for part in text.split(",") if (name := part.strip()))


def check_temperature(value: float) -> None:
    """Refuse what is no temperature.

    Raises:
        RequestError: it is below 0 or too large.
    """
    if not 0 <= value <= MAX_TEMPERATURE:
        raise RequestError(f"--temperature is {value}; expected 0 to {MAX_TEMPERATURE:g}.")
