"""What a scripted round is spent on, by its length: the paper's Figure 1 for the whole round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]
MARGIN = 0.6  # of the x axis, so that no label lies on the other one


class Band(NamedTuple):
    """An area: what it is called, the parts it adds up, its colour and how much of it."""

    name: str
    parts: tuple[str, ...]
    colour: str
    alpha: float = 1.0


# From the bottom up. A mixer's projections have its colour, lighter.
BANDS = (
    Band("drafter", ("drafter",), "#444444"),
    Band("router and experts", ("moe",), canvas.colour(0)),
    Band("GDN", ("gdn",), canvas.colour(1)),
    Band("GDN projections", ("gdn projections",), canvas.colour(1), 0.45),
    Band("attention", ("attention",), canvas.colour(2)),
    Band("attention projections", ("attention projections",), canvas.colour(2), 0.45),
    Band("head", ("head",), canvas.colour(3)),
    Band("acceptance, commit", ("acceptance", "commit"), canvas.colour(4)),
    Band("seams", ("seams",), canvas.GREY, 0.5),
)


def draw(document: Document) -> Figure | None:
    """Stacked areas by length; every band by itself with its growth. None where the part
    `components` has not run."""
    part = document["parts"].get("components")
    if part is None:
        return None
    rows = part["rows"]
    figure, (stack, lines) = canvas.paper(11.0, 4.8, 2)
    lengths = [row["w"] for row in rows]
    heights = [[_ms(row, band) for row in rows] for band in BANDS]
    _stacked(stack, lengths, heights)
    for band, ms in zip(BANDS, heights, strict=True):
        label = f"{band.name} {_growth(ms)}"
        lines.plot(lengths, ms, "o-", color=band.colour, alpha=band.alpha, ms=3.5, label=label)
    stack.set_title("A round by component", fontsize=10)
    lines.set_title("Each component", fontsize=10)
    for axes in (stack, lines):
        axes.set(xlabel="w, target inputs of a round", ylabel="time (ms)", xticks=lengths)
        axes.set_xlim(lengths[0] - MARGIN, lengths[-1] + MARGIN)
        axes.grid(axis="y", alpha=0.3)
    stack.set_ylim(bottom=0)
    handles, labels = lines.get_legend_handles_labels()
    title = f"growth, w = {lengths[0]} to {lengths[-1]}"
    figure.legend(
        handles[::-1], labels[::-1], loc="outside right upper", frameon=False, title=title
    )
    canvas.foot(figure, [*_notes(document)])
    return figure


def _ms(row: Mapping[str, Any], band: Band) -> float:
    return sum(float(row["parts_ms"][part]["median"]) for part in band.parts)


def _stacked(axes: Axes, lengths: list[int], heights: list[list[float]]) -> None:
    below = [0.0] * len(lengths)
    for band, ms in zip(BANDS, heights, strict=True):
        top = [a + b for a, b in zip(below, ms, strict=True)]
        axes.fill_between(lengths, below, top, color=band.colour, alpha=band.alpha, lw=0)
        below = top
    axes.plot(lengths, below, "o-", color="black", ms=3, lw=1)
    for w, total in zip(lengths, below, strict=True):
        axes.annotate(
            f"{total:.2f}",
            (w, total),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
        )


def _growth(ms: list[float]) -> str:
    return f"{round(100 * (ms[-1] / ms[0] - 1)):+d}%" if ms[0] > 0 else ""


def _notes(document: Document) -> list[str]:
    machine = document["machine"]
    where = machine.get("gpu", machine["cpu"])
    first, last = (document["parts"]["components"]["rows"][i]["distinct"] for i in (0, -1))
    return [
        "Scripted weights of the 35B shape. Medians of differences between rounds with a component "
        "once and twice, or without it; seams: what that leaves.",
        f"{where}, torch {machine['torch']}; {document['context']} tokens of context, distinct "
        f"experts a layer {first:.1f} to {last:.1f}; {document['run']['date'][:10]}.",
    ]
