"""What the user asks of the speed bench. Imports no torch: `--help` is instant."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from hybridspec.bench import prompts
from hybridspec.errors import RequestError

WARMUP = 8  # the first generations run cold: half as fast in a reported case
MAX_TEMPERATURE = 100.0
MAX_REPEATS = 1000  # the schedule is a list of every generation
DEFAULT_SYSTEMS = ("ar", "static:4", "dflash")
WHOLE = "hybridspec"
# The paper's Table 3: what each component of hybridspec is replaced by.
ABLATION = {
    "static": "Length selection",
    "length16": "Length selection",
    "nominal-only": "Routing correction",
    f"{WHOLE}:per-token": "GDN kernels",
    "dflash": "All components",
}
# Most tokens of an answer: on a GPU as in the paper (appendix E.1); a CPU would take all day.
MAX_TOKENS = {"cuda": 1024, "cpu": 256}
PROCESSES = {"cuda": 3, "cpu": 0}  # likewise: fresh processes, 0 for none


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOptions:
    """Which pair, where, and on what: every verb of the bench that decodes takes them."""

    model: str | None = None
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    profile: Path | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        within("--threads", self.threads, 1, os.cpu_count(), "this machine runs no more at once")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedOptions(PairOptions):
    """Options of `hybridspec bench speed`; see its help.

    None leaves it to the checkpoint (`chat`) or to the kind of device (`max_tokens`, `repeats`,
    `processes`; see `settled`).
    """

    out: Path
    systems: tuple[str, ...] = DEFAULT_SYSTEMS
    ablation: bool = False
    prompts: Path = prompts.DEFAULT
    split: str | None = None
    categories: tuple[str, ...] = ()
    limit: int | None = None
    turns: str = "first"
    max_tokens: int | None = None
    temperature: float = 0.0
    seed: int = 0
    repeats: int | None = None
    processes: int | None = None
    warmup: int = WARMUP
    chat: bool | None = None
    thinking: bool = False
    startup: bool = False
    plot: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        PairOptions.__post_init__(self)
        within("--max-tokens", self.max_tokens, 2, None, "the first token is prefilled")
        if not 0 <= self.temperature <= MAX_TEMPERATURE:
            raise RequestError(
                f"--temperature is {self.temperature}; expected 0 to {MAX_TEMPERATURE:g}."
            )
        within("--seed", self.seed, 0, 2**63, "every answer is drawn with it")
        within("--repeats", self.repeats, 1, MAX_REPEATS, "they are planned one by one")
        within("--processes", self.processes, 0, MAX_REPEATS, "each runs everything once")
        within("--warmup", self.warmup, WARMUP, None, "the first generations run cold")
        within("--limit", self.limit, 1, None, "the bench needs a prompt")
        if self.thinking and self.chat is False:
            raise RequestError("--thinking is for chat prompts; leave it out or leave out --raw.")
        if not self.systems:
            raise RequestError("--systems names none; expected names such as ar,static:4,dflash.")
        twice = [name for name in self.systems if self.systems.count(name) > 1]
        if twice:
            raise RequestError(f"--systems names {twice[0]} twice; expected each one once.")

    def settled(self, device: str) -> Self:
        """The same options with what the kind of device (`cpu`, `cuda`) decides filled in.

        `repeats` counts runs of everything, and `processes` is as many or 0: each in a fresh
        process of its own, or all in this one.
        """
        processes = self.processes
        if processes is None:
            processes = PROCESSES[device] if self.repeats is None else 0
        return replace(
            self,
            max_tokens=self.max_tokens or MAX_TOKENS[device],
            repeats=processes or self.repeats or 1,
            processes=processes,
        )

    @property
    def baseline(self) -> str:
        """The system that the others are compared with: plain decoding, else the first."""
        return "ar" if "ar" in self.systems else self.systems[0]


def within(name: str, value: int | None, least: int, most: int | None, reason: str) -> None:
    """Refuse a number that is not from least to most; RequestError says why."""
    if value is None or (value >= least and (most is None or value <= most)):
        return
    expected = f"at least {least}" if most is None else f"{least} to {most}"
    raise RequestError(f"{name} is {value}; expected {expected}: {reason}.")
