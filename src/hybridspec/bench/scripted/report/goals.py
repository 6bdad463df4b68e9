"""The figures that scripted runs were to reach, each with what was found.

All are of one H200, the 35B shape in bf16, one sequence, skewed routing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hybridspec.bench.scripted.report.compared import exact_slower
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table

UNEQUAL = ", U not equal"
Found = tuple[float | None, str]  # a figure, and what is to be said of it


@dataclass(frozen=True, slots=True)
class Goal:
    """wanted, gate: at least, or at most where `most` is set; no gate where they are one."""

    what: str
    wanted: float
    gate: float
    found: Callable[[Sequence[Document]], Found]
    most: bool = False

    def row(self, documents: Sequence[Document]) -> tuple[str, ...]:
        """As the table has it."""
        (found, more), sense = self.found(documents), "at most" if self.most else "at least"
        gate = MISSING if self.gate == self.wanted else f"{self.gate:g}"
        said = "not measured" if found is None else f"{found:.3f}{more}"
        return self.what, said, f"{sense} {self.wanted:g}", gate, self._reached(found)

    def _reached(self, found: float | None) -> str:
        if found is None:
            return ""
        wanted, gate = (
            found <= bound if self.most else found >= bound for bound in (self.wanted, self.gate)
        )
        return "yes" if wanted else "the gate" if gate else "no"


def goals(documents: Sequence[Document], clocks: Document | None = None) -> Table | None:
    """What was wanted and found; None but for skewed routing on a GPU."""
    first = documents[0]
    if "gpu" not in first["machine"] or first["routing"] != "skewed":
        return None
    share = Goal("gaps between rounds, part of a round", 0.02, 0.02, _gaps(clocks), most=True)
    rows = tuple(goal.row(documents) for goal in (*GOALS, share))
    head = ("figure", "found", "wanted", "gate", "reached")
    note = "Wanted: the figure to reach. Gate: the least that counts."
    return Table("What was wanted", head, rows, note)


def _mean(system: str, key: str, over: str | None = None) -> Callable[[Sequence[Document]], Found]:
    """A system's mean, or by how much it is another's."""

    def found(documents: Sequence[Document]) -> Found:
        systems = documents[0]["systems"]
        if system not in systems or (over is not None and over not in systems):
            return None, ""
        other = 1.0 if over is None else systems[over]["mean"][key]
        return systems[system]["mean"][key] / other, ""

    return found


def _gaps(clocks: Document | None) -> Callable[[Sequence[Document]], Found]:
    """The worst share of a system under the launcher of the main run."""
    rows = (clocks or {}).get("parts", {}).get("gaps", {}).get("rows", [])

    def found(documents: Sequence[Document]) -> Found:
        led = [row for row in rows if row["launcher"] == documents[0]["executor"]]
        if not led:
            return None, ""
        worst = max(led, key=lambda row: row["share"])
        return worst["share"], f" ({worst['system']})"

    return found


def _least(documents: Sequence[Document]) -> Found:
    ours = documents[0]["systems"].get("hybridspec")
    return (min(f["speedup"] for f in ours["categories"].values()) if ours else None), ""


def _round(mode: str) -> Callable[[Sequence[Document]], Found]:
    """SGLang's round over ours, of the first of our systems of its length."""

    def found(documents: Sequence[Document]) -> Found:
        number, body = _peer(documents, mode, lambda body: bool(body["rounds"]))
        if body is None:
            return None, ""
        name, first = next(iter(body["rounds"].items()))
        return first["times_as_fast"], f" ({name}{_said(number, body)})"

    return found


def _tokens(documents: Sequence[Document]) -> Found:
    def over(body: Document) -> Any:
        return body.get("tokens_per_second", {}).get("ours_over_it", {}).get("hybridspec")

    number, body = _peer(documents, "dflash16", lambda body: over(body) is not None)
    if body is None:
        return None, ""
    return over(body)["mean"], f" (least {over(body)['least']:.2f}{_said(number, body)})"


def _peer(
    documents: Sequence[Document], mode: str, has: Callable[[Document], bool]
) -> tuple[int, Document | None]:
    """SGLang's mode in the first run, counted from 1, that has what is asked for, and before those
    one where both read as many experts; of the main run's launcher alone."""
    found = [
        (number, body)
        for number, document in enumerate(documents, 1)
        if document["executor"] == documents[0]["executor"]
        and (body := document.get("against", {}).get("modes", {}).get(mode)) and has(body)
    ]  # fmt: skip
    equal = [(number, body) for number, body in found if body["distinct"]["equal"]]
    return next(iter([*equal, *found]), (0, None))


def _said(number: int, body: Document) -> str:
    return (f", run {number}" if number > 1 else "") + _unequal(body)


def _unequal(body: Document) -> str:
    return "" if body["distinct"]["equal"] else UNEQUAL


def _exact(documents: Sequence[Document]) -> Found:
    more = exact_slower(documents)
    return (None if more is None else 1 + more), ""


GOALS = (
    Goal("ar step, ms", 2.0, 2.2, _mean("ar", "ms_per_round"), most=True),
    Goal("SGLang's AR step over ours", 1.9, 1.9, _round("ar")),
    Goal("hybridspec's tokens/s over SGLang DFLASH-16's", 2.3, 2.0, _tokens),
    Goal("SGLang's DFLASH-16 round over ours at w = 16", 1.7, 1.7, _round("dflash16")),
    Goal("hybridspec over ar, mean of categories", 2.0, 2.0, _mean("hybridspec", "speedup")),
    Goal("hybridspec over ar, least category", 1.5, 1.5, _least),
    Goal("hybridspec over dflash", 1.3, 1.25, _mean("hybridspec", "speedup", "dflash")),
    Goal("exact's time over the fastest other's, fixed lengths", 1.03, 1.03, _exact, most=True),
)
