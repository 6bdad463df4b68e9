"""C(w): the time of a round by its length."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas
from hybridspec.bench.plot.acceptance import longest_round

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = "osD^v"  # hollow: one does not hide another
LEAST = 8  # rounds below which a median time says little


def draw(results: dict[str, Any]) -> Figure | None:
    """Median time of a round by w with quartiles; each kind of system has its colour.

    A system of one length is shown at that; its last rounds near the token limit are shorter. One
    that chooses is shown at every length it ran often enough. None if there is none of either.
    """
    kinds = _kinds(results)
    if not kinds:
        return None
    figure, (axes,) = canvas.paper(7.0, 4.2)
    colours = canvas.kind_colours(list(results["systems"]))
    for (kind, rows), mark in zip(kinds.items(), cycle(MARKS)):
        _line(axes, kind, rows, colours[kind], mark)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.set(xlabel="w, target inputs of a round", ylabel="time of a round (ms)")
    canvas.whole_numbers(axes)
    axes.set_title("Time of a round, drafting included (median and quartiles)", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="system")
    seen = {row["system"] for rows in kinds.values() for row in rows}
    unseen = [n for n in results["systems"] if n not in seen]
    canvas.caption(figure, results, canvas.left_out(unseen, f"fewer than {LEAST} whole rounds"))
    return figure


def _kinds(results: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Costs with enough rounds at each system's own lengths, by kind, shortest first."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for cost in sorted(results["round_costs"], key=lambda cost: int(cost["w"])):
        s = results["systems"][cost["system"]]
        if cost["rounds"] >= LEAST and (cost["w"] == longest_round(s) or _chooses(s)):
            kinds.setdefault(canvas.kind(cost["system"]), []).append(cost)
    return kinds


def _chooses(s: dict[str, Any]) -> bool:
    """Whether a system has no length of its own: most of its rounds are not its longest."""
    return 2 * int(s["verification_length_histogram"][longest_round(s)]) < int(s["rounds"])


def _line(axes: Axes, kind: str, rows: list[dict[str, Any]], colour: str, mark: str) -> None:
    middle = [1e3 * row["median"] for row in rows]
    below = [1e3 * (row["median"] - row["low"]) for row in rows]
    above = [1e3 * (row["high"] - row["median"]) for row in rows]
    axes.errorbar(
        [row["w"] for row in rows], middle, (below, above),
        fmt=f"{mark}-", fillstyle="none", color=colour, capsize=3, label=kind,
    )  # fmt: skip
