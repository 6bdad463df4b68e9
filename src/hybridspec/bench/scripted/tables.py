"""Answers added up: the paper's AL and SR by category, and what a round was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hybridspec.bench.scripted.answers import Answer

Rows = Mapping[str, Mapping[str, "Row"]]  # by system, then category


@dataclass(frozen=True, slots=True)
class Row:
    """A system's answers of one category, pooled."""

    tokens: int
    rounds: int
    seconds: float
    inputs: int

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> Row:
        """Pooled."""
        return cls(
            sum(len(a.tokens) for a in answers),
            sum(len(a.rounds) for a in answers),
            sum(a.seconds for a in answers),
            sum(r.w for a in answers for r in a.rounds),
        )

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds

    def figures(self, plain: Row) -> dict[str, Any]:
        """For the document; plain: of `ar`."""
        return {
            "tokens": self.tokens, "rounds": self.rounds, "seconds": self.seconds,
            "acceptance_length": self.tokens / self.rounds, "mean_w": self.inputs / self.rounds,
            "ms_per_round": 1e3 * self.seconds / self.rounds, "tokens_per_second": self.rate,
            "speedup": self.rate / plain.rate,
        }  # fmt: skip


def figures(rows: Rows) -> dict[str, Any]:
    """By system and category, and the means over categories as the paper takes them."""
    made = {}
    for system, categories in rows.items():
        each = {c: row.figures(rows["ar"][c]) for c, row in categories.items()}
        names = ("acceptance_length", "mean_w", "ms_per_round", "tokens_per_second", "speedup")
        means = {name: fmean(f[name] for f in each.values()) for name in names}
        made[system] = {"categories": each, "mean": means}
    return made


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
