"""Milliseconds a round: launchers against each other, and GDN verifiers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean, median
from typing import Any, NamedTuple

from hybridspec.bench.scripted.answers import Answer
from hybridspec.bench.scripted.clocks.board import WARM, Board
from hybridspec.model.gdn import Verifier

LENGTHS = (4, 8, 16)
VERIFIERS: tuple[Verifier, ...] = ("exact", "block", "per-token", "replay")


class Variant(NamedTuple):
    """A system under a launcher."""

    launcher: str
    system: str


def launchers(board: Board) -> dict[str, Any]:
    """Every system under every launcher; the first launcher is what others are held against."""
    names = board.given.launchers
    groups = [[Variant(launcher, s) for launcher in names] for s in board.plan.systems]
    return {"rows": compared(board, groups)}


def verifiers(board: Board) -> dict[str, Any]:
    """Every GDN verifier at some fixed lengths; `exact` is what others are held against."""
    lengths = LENGTHS[:1] if board.given.small else LENGTHS
    groups = [
        [Variant(board.given.launcher, f"static:{w}:{v}") for v in VERIFIERS] for w in lengths
    ]
    return {"rows": compared(board, groups)}


def compared(board: Board, groups: Sequence[Sequence[Variant]]) -> list[dict[str, Any]]:
    """A row a variant. All answer in turn, every turn another first; `ratio` is a variant's time
    over that of its group's first in the same turn, on the same text and trace."""
    variants = [variant for group in groups for variant in group]
    for variant in variants:
        board.say(board.answers(variant.launcher), variant.system, WARM)
    found: dict[Variant, list[Answer]] = defaultdict(list)
    for turn in range(board.turns):
        first = turn % len(variants)
        for variant in variants[first:] + variants[:first]:
            answer = board.say(board.answers(variant.launcher), variant.system)
            found[variant].append(answer)
    return [_row(v, found[v], found[group[0]]) for group in groups for v in group]


def _row(variant: Variant, ours: Sequence[Answer], theirs: Sequence[Answer]) -> dict[str, Any]:
    lengths = [r.w for answer in ours for r in answer.rounds]
    ratios = [_ms(a) / _ms(b) for a, b in zip(ours, theirs, strict=True)]
    return {
        "launcher": variant.launcher, "system": variant.system, "answers": len(ours),
        "rounds": len(lengths), "mean_w": fmean(lengths), "ms": spread([*map(_ms, ours)]),
        "ratio": spread(ratios),
    }  # fmt: skip


def _ms(answer: Answer) -> float:
    return 1e3 * answer.seconds / len(answer.rounds)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and greatest."""
    return {"median": median(values), "low": min(values), "high": max(values)}
