"""From options to what will run; refuses what cannot, before gigabytes are made."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from hybridspec.bench.scripted.paper import CATEGORIES
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.bench.scripted.traces import FITTED
from hybridspec.bench.scripted.weights import RECIPES, Recipe
from hybridspec.catalogue import CATALOGUE
from hybridspec.errors import OptionError
from hybridspec.model.gdn import VERIFY, Verifier
from hybridspec.systems import parse_system

FEWEST = 1000  # positions of which a mean can be had to 1%
CONTROL = 48  # tokens of the answer that must fail: every state is committed several times


@dataclass(frozen=True, slots=True)
class Plan:
    """What will run.

    Attributes:
        systems: names, `ar` first.
        categories: of the paper's.
        context: tokens of a prompt. answers: of a category. tokens: of an answer. timed: of an
            answer that calibration times. blocks: whose routing is looked at. traces: on which
            lengths are timed.
    """

    shape: Shape
    recipe: Recipe
    systems: tuple[str, ...]
    categories: tuple[str, ...]
    context: int
    answers: int
    tokens: int
    timed: int
    blocks: int
    traces: int

    @classmethod
    def of(cls, given: argparse.Namespace) -> Plan:
        """As asked for; what was left open, by the shape.

        Raises:
            OptionError: an unknown category. RequestError: an unknown system.
        """
        for name in given.categories:
            if name not in CATEGORIES:
                raise OptionError(
                    "categories", f"names {name!r}; expected some of {', '.join(CATEGORIES)}."
                )
        shape = SHAPES["small" if given.small else "35b"]
        for name in given.systems:
            if verifier_of(name) is None:
                parse_system(name, shape.drafter.block_size)
        usual = (24, 1, 40, 12) if given.small else (512, 2, 512, 128)
        asked = (given.context, given.answers, given.tokens, given.calibration_tokens)
        context, answers, tokens, timed = (a or u for a, u in zip(asked, usual, strict=True))
        systems = ("ar", *(name for name in given.systems if name != "ar"))
        blocks, traces = (32, 2) if given.small else (256, 4)
        return cls(
            shape, RECIPES[given.routing], systems, given.categories, context, answers, tokens,
            timed, blocks, traces,
        )  # fmt: skip

    @property
    def small(self) -> bool:
        """Whether the shape is one whose figures mean nothing."""
        return self.shape is not SHAPES["35b"]

    @property
    def capacity(self) -> int:
        """Tokens of a prompt with its answer."""
        return self.context + max(self.tokens, self.timed, CONTROL) + 1

    @property
    def positions(self) -> dict[str, int]:
        """Of a category's trace, by split: one walk over the tested one is all answers."""
        return {"calibration": FITTED, "test": max(FEWEST, self.answers * self.tokens)}

    @property
    def verifiers(self) -> tuple[Verifier, ...]:
        """Whose rounds must be timed: of all systems that read a profile, and `exact`."""
        used = [verifier for name in self.systems if (verifier := verifier_of(name)) is not None]
        return tuple(dict.fromkeys(("exact", *used)))


def verifier_of(name: str) -> Verifier | None:
    """On which a catalogued system runs; None for others."""
    kind, _, argument = name.partition(":")
    if kind not in CATALOGUE or (kind == "static" and argument):
        return None
    last = argument.rpartition(":")[2]
    return next((v for v in VERIFY if v == last), CATALOGUE[kind].verifier)
