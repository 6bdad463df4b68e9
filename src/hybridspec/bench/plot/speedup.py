"""Speed-up of every system: bars by category for a few, a chart of bars and numbers for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FEW = 6  # systems whose bars can be told apart side by side
REASON = "no answer with a second token"


def draw(results: dict[str, Any]) -> Figure | None:
    """Speed-ups over the baseline with their 95% intervals; None if there are none."""
    systems = results["systems"]
    others = [n for n in systems if n != results["baseline"]]
    shown = [n for n in others if systems[n]["speedup"]]
    if not shown:
        return None
    notes = canvas.left_out([n for n in others if n not in shown], REASON)
    if len(shown) <= FEW:
        figure = _bars(results, shown)
    else:
        figure = _chart(results, shown)
        notes.append(f"Purple: faster than {results['baseline']}; orange: slower.")
    canvas.caption(figure, results, notes)
    return figure


def _bars(results: dict[str, Any], shown: Sequence[str]) -> Figure:
    """Groups of bars: all prompts, then each category."""
    groups = ["all prompts", *results["prompts"]]
    width = 3.5 + 0.17 * len(groups) * (len(shown) + 1)
    width = min(16.0, max(6.5, width))
    figure, (axes,) = canvas.paper(width, 4.0)
    thick = min(0.3, 0.84 / len(shown))
    for i, system in enumerate(shown):
        s = results["systems"][system]
        sets = [s, *(s["categories"].get(group) for group in groups[1:])]
        places = [at + (i + 0.5 - len(shown) / 2) * thick for at in range(len(groups))]
        label = f"{system} ({s['speedup']['value']:.2f}\N{MULTIPLICATION SIGN})"
        _group(axes, places, sets, thick, canvas.colour(i), label)
    axes.axvline(0.5, color=canvas.GREY, linewidth=0.5)
    axes.axhline(1.0, color=canvas.GREY, linewidth=1, label=f"{results['baseline']} (1)")
    axes.set_xlim(-0.6, len(groups) - 0.4)
    _name_groups(axes, groups, width)
    axes.grid(axis="y", alpha=0.3)
    axes.set_ylabel(_what(results))
    axes.set_title("Decode speed-up, 95% intervals over prompts", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="system (all prompts)")
    return figure


def _group(
    axes: Axes, places: Sequence[float], sets: Sequence[Any], width: float, colour: str, label: str
) -> None:
    speedups = [s and s["speedup"] for s in sets]
    values = [s["value"] if s else 0.0 for s in speedups]
    axes.bar(places, values, width * 0.92, color=colour, label=label)
    for place, s in zip(places, speedups, strict=True):
        if s and s["low"] is not None:
            axes.vlines(place, s["low"], s["high"], color="black", linewidth=1)


def _name_groups(axes: Axes, groups: Sequence[str], width: float) -> None:
    """Slanted where they would run into each other."""
    names = [canvas.name(group) for group in groups]
    room = 13 * (width - 3.0) / len(names)  # letters of one group
    crowded = max(map(len, names)) + 1 > room
    axes.set_xticks(
        range(len(names)), names, rotation=25 if crowded else 0, ha="right" if crowded else "center"
    )


def _chart(results: dict[str, Any], shown: Sequence[str]) -> Figure:
    """A row a system: a bar over all prompts, and a coloured number for each category."""
    categories = list(results["prompts"])
    width = 5.6 + 0.72 * len(categories)
    figure, (bars, cells) = canvas.paper(
        *(width, 1.9 + 0.27 * len(shown)), 2, sharey=True,
        width_ratios=(3.6, max(1.4, 0.72 * len(categories))),
    )  # fmt: skip
    speedups = [results["systems"][n]["speedup"] for n in shown]
    colours = canvas.kind_colours(shown)
    rows = range(len(shown))
    bars.barh(rows, [s["value"] for s in speedups], color=[colours[canvas.kind(n)] for n in shown])
    for row, s in zip(rows, speedups, strict=True):
        _interval(bars, row, s)
    bars.grid(axis="x", alpha=0.3)
    bars.axvline(1.0, color=canvas.GREY, linewidth=1)
    bars.set_yticks(rows, shown)
    bars.set_ylim(len(shown) - 0.4, -0.6)
    bars.set_xlim(0, 1.04 * max(s["high"] or s["value"] for s in speedups))
    bars.set_xlabel(_what(results))
    bars.set_title("All prompts, 95% intervals over prompts", fontsize=9)
    _cells(cells, results, shown, categories)
    figure.suptitle(
        f"Decode speed-up of {len(shown)} systems over {results['baseline']}", fontsize=10
    )
    return figure


def _interval(axes: Axes, row: int, s: dict[str, Any]) -> None:
    """The interval as a line, and both as a text to the right of the bars."""
    text = f"{s['value']:.2f}"
    if s["low"] is not None:
        axes.hlines(row, s["low"], s["high"], color="black", linewidth=1)
        text += f" ({s['low']:.2f} to {s['high']:.2f})"
    axes.text(1.02, row, text, transform=axes.get_yaxis_transform(), va="center", fontsize=7.5)


def _cells(
    axes: Axes, results: dict[str, Any], shown: Sequence[str], categories: Sequence[str]
) -> None:
    """Purple is faster than the baseline, orange slower; the colour is the number's logarithm."""
    import numpy as np

    values = np.array([[_value(results, n, c) for c in categories] for n in shown])
    far = max(0.05, float(np.nanmax(np.abs(np.log2(values)), initial=0.0)))
    image = axes.imshow(np.log2(values), cmap="PuOr", vmin=-far, vmax=far, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        text = "-" if np.isnan(value) else f"{value:.2f}"
        colour = _legible(image.to_rgba(np.log2(value)))
        axes.text(column, row, text, color=colour, ha="center", va="center", fontsize=7.5)
    names = [canvas.name(c) for c in categories]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.tick_params(length=0, labelleft=False)
    axes.spines[:].set_visible(False)
    axes.set_title("By category", fontsize=9)


def _legible(ground: Iterable[float]) -> str:
    """Black or white, whichever stands out from a ground of red, green, blue and opacity."""
    red, green, blue, opacity = ground
    light = 1 - opacity * (1 - (0.299 * red + 0.587 * green + 0.114 * blue))
    return "black" if light > 0.5 else "white"


def _value(results: dict[str, Any], system: str, category: str) -> float:
    s = results["systems"][system]["categories"].get(category)
    return float(s["speedup"]["value"]) if s and s["speedup"] else float("nan")


def _what(results: dict[str, Any]) -> str:
    return f"decode tokens/s over those of {results['baseline']} (\N{MULTIPLICATION SIGN})"
