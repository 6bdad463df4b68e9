"""Answers added up: the paper's AL and SR by category, and what a round was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from hybridspec.bench.scripted.answers import Answer

RESAMPLES, PERCENTILES = 10_000, (2.5, 97.5)
MEANS = ("acceptance_length", "mean_w", "ms_per_round", "tokens_per_second", "speedup")


@dataclass(frozen=True, slots=True)
class Row:
    """A system's answers of one category. seconds: of each. lengths: rounds by w."""

    tokens: int
    seconds: tuple[float, ...]
    lengths: Mapping[int, int]

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Row:
        """From answers."""
        return cls(
            sum(len(a.tokens) for a in answers),
            tuple(a.seconds for a in answers),
            Counter(sorted(r.w for a in answers for r in a.rounds)),
        )

    @property
    def rounds(self) -> int:
        """Of all answers."""
        return sum(self.lengths.values())

    @property
    def rate(self) -> float:
        """Tokens a second, pooled."""
        return self.tokens / sum(self.seconds)

    def figures(self, plain: Row) -> dict[str, Any]:
        """For the document; plain: of `ar`."""
        inputs, seconds = sum(w * n for w, n in self.lengths.items()), sum(self.seconds)
        return {
            "tokens": self.tokens, "rounds": self.rounds, "seconds": seconds,
            "lengths": dict(self.lengths), "acceptance_length": self.tokens / self.rounds,
            "mean_w": inputs / self.rounds, "ms_per_round": 1e3 * seconds / self.rounds,
            "tokens_per_second": self.rate, "speedup": self.rate / plain.rate,
        }  # fmt: skip


Rows = Mapping[str, Mapping[str, Row]]  # by system, then category


def figures(rows: Rows) -> dict[str, Any]:
    """By system and category, and the means over categories as the paper takes them."""
    made = {}
    for system, categories in rows.items():
        each = {c: row.figures(rows["ar"][c]) for c, row in categories.items()}
        means = {name: fmean(f[name] for f in each.values()) for name in MEANS}
        made[system] = {"categories": each, "mean": means}
    return made


@dataclass(frozen=True, slots=True)
class Gain:
    """How many times faster one system gave the same answers than another; low and high bound it
    at 95%, by a paired bootstrap over answers."""

    value: float
    low: float
    high: float
    answers: int

    @classmethod
    def of(cls, ours: Mapping[str, Row], theirs: Mapping[str, Row]) -> Gain:
        """From the rows of two systems, by category."""
        seconds = np.array([
            pair for c, row in ours.items()
            for pair in zip(row.seconds, theirs[c].seconds, strict=True)
        ])  # fmt: skip
        n = len(seconds)
        drawn = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
        sums = seconds[drawn].sum(1)
        low, high = np.percentile(sums[:, 1] / sums[:, 0], PERCENTILES).tolist()
        mine, other = seconds.sum(0).tolist()
        return cls(other / mine, low, high, n)

    def line(self) -> str:
        """For people."""
        return (
            f"The routing correction: {self.value:.3f} times as fast "
            f"({self.low:.3f} to {self.high:.3f}, {self.answers} answers)"
        )


def table(found: Mapping[str, Any]) -> str:
    """Markdown: AL and SR a category, then means."""
    categories = [*next(iter(found.values()))["categories"]]
    head = ["system", *categories, "Avg.", "w", "ms a round", "tokens/s"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for system, body in found.items():
        each = [_cell(f) for f in (*body["categories"].values(), body["mean"])]
        m = body["mean"]
        last = [f"{m['mean_w']:.2f}", f"{m['ms_per_round']:.3f}", f"{m['tokens_per_second']:.0f}"]
        lines.append([f"`{system}`", *each, *last])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(f: Mapping[str, float]) -> str:
    return f"{f['acceptance_length']:.2f} {f['speedup']:.2f}x"
