"""The device's idle time between rounds, by its own clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import numpy as np

from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.check import ScriptError
from hybridspec.bench.scripted.clocks.board import WARM, Board
from hybridspec.bench.scripted.clocks.stamped import stamped
from hybridspec.bench.scripted.clocks.stamps import Piece, Stamps, by_round

ANSWERS = 3  # with stamps, and as many without


def gaps(board: Board) -> dict[str, Any]:
    """Of every system under every launcher, and what the stamps themselves take."""
    chain = Stamps(board.device).chain()
    steps = [b - a for a, b in pairwise(chain)]
    rows = [row for launcher in board.given.launchers for row in _of(board, launcher)]
    return {"stamp_us": median(steps) / 1e3, "tick_ns": math.gcd(*steps), "rows": rows}


def _of(board: Board, launcher: str) -> list[dict[str, Any]]:
    stamps = Stamps(board.device)
    executor, last = stamped(board.pair, board.plan.capacity, launcher, stamps)
    answers = board.prompted(executor)
    return [_row(board, launcher, name, answers, stamps, last) for name in board.plan.systems]


def _row(
    board: Board, launcher: str, name: str, answers: Answers, stamps: Stamps, last: str
) -> dict[str, Any]:
    """Answers with stamps and without in turn."""
    plain, rounds = board.answers(launcher), []
    ms: tuple[list[float], list[float]] = ([], [])
    for each in (answers, plain):
        board.say(each, name, WARM)
    for _ in range(ANSWERS):
        stamps.clear()
        for kept, each in zip(ms, (answers, plain), strict=True):
            said = board.say(each, name)
            kept.append(1e3 * said.seconds / len(said.rounds))
        found = by_round(stamps.pieces(), last)
        if len(found) != len(said.rounds):
            raise ScriptError(f"The device stamped {len(found)} rounds of {len(said.rounds)}.")
        rounds.append(found)
    with_stamps, without = map(median, ms)
    return {
        "launcher": launcher, "system": name, "ms_stamped": with_stamps, "ms": without,
        **between(rounds),
    }  # fmt: skip


def between(answers: Sequence[Sequence[Sequence[Piece]]]) -> dict[str, Any]:
    """Figures of gaps from a round's last kernel to the next one's first, over all rounds of some
    answers; share: of all time from a round's begin to the next one's. idle: likewise of all that
    no piece of a round has run in, where a round is of several."""
    pairs = [pair for rounds in answers for pair in pairwise(rounds)]
    found = np.array([b[0].begin - a[-1].end for a, b in pairs]) / 1e3
    whole = np.array([b[0].begin - a[0].begin for a, b in pairs]) / 1e3
    busy = np.array([sum(p.end - p.begin for p in a) for a, _ in pairs]) / 1e3
    return {
        "rounds": len(pairs), "gap_us": float(np.median(found)),
        "gap_us_95": float(np.percentile(found, 95)), "gap_us_most": float(found.max()),
        "round_us": float(np.median(whole)), "share": float(found.sum() / whole.sum()),
        "idle": float(1 - busy.sum() / whole.sum()), "pieces": fmean(len(a) for a, _ in pairs),
    }  # fmt: skip
