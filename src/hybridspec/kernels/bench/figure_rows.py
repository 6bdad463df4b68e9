"""Figures as rows of tables: those that differ in w or U alone share a row, a column each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

POINT = re.compile(r",? ((?:w|U) = \d+)")
SINGLE = ("figure", "found", "wanted", "reached")
Figure = dict[str, Any]
Rows = list[list[str]]


def figure_tables(figures: Iterable[Figure]) -> list[Rows]:
    """Tables, a head first: of figures that stand alone, then one for each set of points."""
    groups: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        point = POINT.search(figure["figure"])
        name = POINT.sub("", figure["figure"], count=1)
        groups.setdefault(name, {})[point[1] if point else ""] = figure
    made: dict[tuple[str, ...], Rows] = {}
    for name, members in groups.items():
        points = tuple(members)
        alone = len(points) == 1
        head = SINGLE if alone else ("figure", *points, "unit", "wanted", "reached")
        row = _single(*members.values()) if alone else _shared(name, members)
        made.setdefault(head, [list(head)]).append(row)
    return sorted(made.values(), key=lambda rows: tuple(rows[0]) != SINGLE)


def _single(figure: Figure) -> list[str]:
    unit = figure["unit"]
    found = "not measured" if figure["found"] is None else f"{figure['found']:g} {unit}"
    target = figure["target"]
    wanted = "" if target is None else f"{figure['sense']} {target:g} {unit}"
    return [figure["figure"], found, wanted, {True: "yes", False: "no", None: ""}[figure["met"]]]


def _shared(name: str, members: dict[str, Figure]) -> list[str]:
    """Of several points; targets are listed where they differ."""
    rows = [*members.values()]
    found = ["not measured" if r["found"] is None else f"{r['found']:g}" for r in rows]
    targets = dict.fromkeys(f"{r['target']:g}" for r in rows if r["target"] is not None)
    wanted = f"{rows[0]['sense']} {' / '.join(targets)}" if targets else ""
    return [name, *found, rows[0]["unit"], wanted, _reached(members)]


def _reached(members: dict[str, Figure]) -> str:
    judged = {point: r["met"] for point, r in members.items() if r["met"] is not None}
    met = [point for point, reached in judged.items() if reached]
    if not judged or len(met) == len(judged):
        return "yes" if judged else ""
    return f"at {', '.join(met)} alone" if met else "no"
