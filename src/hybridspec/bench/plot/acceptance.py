"""How many drafts are accepted: tokens a round of every system, and how far the longest gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw(results: dict[str, Any]) -> Figure | None:
    """Bars of mean tokens a round; shares of rounds with at least A accepted drafts by category.

    None where no system drafts.
    """
    systems = results["systems"]
    shown = [n for n in systems if systems[n]["rounds"]]

    def verified(name: str) -> float:
        return float(systems[name]["mean_verification_length"])

    longest = max(reversed(shown), key=verified, default=None)  # it cuts the fewest acceptances
    if longest is None or longest_round(systems[longest]) == 1:
        return None
    height = max(4.0, 1.9 + 0.27 * len(shown))
    figure, (bars, curves) = canvas.paper(11.0, height, 2, width_ratios=(2, 3))
    _bars(bars, {n: systems[n]["mean_acceptance_length"] for n in shown})
    _curves(curves, systems[longest])
    curves.set_title(f"How many drafts a round of {longest} accepts", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="category")
    unseen = [n for n in systems if n not in shown]
    canvas.caption(figure, results, canvas.left_out(unseen, "no rounds"))
    return figure


def longest_round(s: dict[str, Any]) -> int:
    """The longest w that a system ran."""
    return max(w for w, n in enumerate(s["verification_length_histogram"]) if n)


def _bars(axes: Axes, means: dict[str, float]) -> None:
    colours = canvas.kind_colours(list(means))
    rows = range(len(means))
    thick = min(0.8, 0.16 * len(means))
    axes.barh(rows, list(means.values()), thick, color=[colours[canvas.kind(n)] for n in means])
    for row, mean in zip(rows, means.values(), strict=True):
        axes.annotate(
            f"{mean:.2f}", (mean, row), (4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.set_yticks(rows, list(means))
    axes.set_ylim(len(means) - 0.4, -0.6)
    axes.set_xlim(0, 1.15 * max(means.values()))
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("acceptance length (mean tokens a round)")
    axes.set_title("Tokens a round of every system", fontsize=10)


def _curves(axes: Axes, system: dict[str, Any]) -> None:
    end = longest_round(system)
    for i, (category, s) in enumerate(system["categories"].items()):
        if s["rounds"]:
            tail = at_least(s["acceptance_histogram"])[:end]
            form = canvas.dashes(i)
            axes.plot(tail, form, color=canvas.colour(i), label=canvas.name(category))
    tail = at_least(system["acceptance_histogram"])[:end]
    axes.plot(tail, "o-", color="black", linewidth=2, markersize=3, label="all prompts")
    axes.set(xlabel="A, accepted drafts", ylabel="share of rounds that accept at least A")
    axes.set_ylim(0, 1.03)
    axes.grid(axis="y", alpha=0.3)
    canvas.whole_numbers(axes)


def at_least(histogram: Sequence[int]) -> list[float]:
    """Share of rounds with at least A = 0, 1, ... accepted drafts."""
    return [sum(histogram[a:]) / sum(histogram) for a in range(len(histogram))]
