"""Judged replies, and what `quality` makes of them: counts, difference, bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from hybridspec.bench.paired import Paired, least_questions

if TYPE_CHECKING:
    from hybridspec.bench.quality import QualityOptions

SCHEMA = "hybridspec.bench.quality/1"
Role = Literal["baseline", "system"]
ROLES: tuple[Role, ...] = ("baseline", "system")


@dataclass(frozen=True, slots=True)
class Mark:
    """How a reply was judged. `said` is the answer found in it, or how its program ended."""

    right: bool
    said: str | None
    finish_reason: str


@dataclass(frozen=True, slots=True)
class Row:
    """One question with both replies. `answer` is empty for code."""

    prompt: str
    category: str
    kind: str
    answer: str
    same_tokens: bool
    baseline: Mark
    system: Mark

    @property
    def marks(self) -> dict[Role, Mark]:
        """By role."""
        return {"baseline": self.baseline, "system": self.system}


def assemble(
    options: QualityOptions,
    setup: Mapping[str, Any],
    skipped: Mapping[str, int],
    rows: Sequence[Row],
) -> dict[str, Any]:
    """Everything that DIR/quality.json says.

    Args:
        options: as asked.
        setup: what was run on what.
        skipped: rows that were not asked, by the reason.
        rows: the others; at least one.
    """
    counts, margin = _paired(rows), options.margin / 100
    return {
        "schema": SCHEMA,
        "setup": dict(setup),
        "baseline": options.baseline,
        "system": options.system,
        "margin": margin,
        "questions": len(rows),
        "kinds": Counter(row.kind for row in rows),
        "skipped": dict(skipped),
        "right": {role: sum(row.marks[role].right for row in rows) for role in ROLES},
        "cut": {
            role: sum(row.marks[role].finish_reason == "length" for row in rows) for role in ROLES
        },
        "same_tokens": sum(row.same_tokens for row in rows),
        "paired": asdict(counts),
        "difference": counts.difference,
        "bound": counts.bound,
        "score_bound": counts.score_bound,
        "not_inferior": counts.not_inferior(margin),
        "least_questions": least_questions(margin),
        "by_kind": _grouped(rows, lambda row: row.kind),
        "by_category": _grouped(rows, lambda row: row.category),
        "answers": [asdict(row) for row in rows],
    }


def _paired(rows: Sequence[Row]) -> Paired:
    counts = Counter((row.baseline.right, row.system.right) for row in rows)
    outcomes = ((True, True), (False, False), (True, False), (False, True))
    return Paired(*(counts[outcome] for outcome in outcomes))


def _grouped(rows: Sequence[Row], name: Callable[[Row], str]) -> dict[str, dict[str, int]]:
    """The counts of every group, in the order of their first rows."""
    groups = dict.fromkeys(map(name, rows))
    return {g: asdict(_paired([row for row in rows if name(row) == g])) for g in groups}
