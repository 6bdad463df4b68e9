"""How often each verification length was chosen (the paper's Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIXED = ("ar", "static:", "dflash", "length16", "replayssm")  # the same length in every round
MOST = 6  # systems that are told apart at a glance
Bars = dict[int, float]


def draw(results: dict[str, Any]) -> Figure | None:
    """Share of rounds by w, a panel for each system that chooses; None where none does."""
    choosing = {n: s for n, s in results["systems"].items() if s["rounds"] and not _fixed(n)}
    shown = dict(list(choosing.items())[-MOST:])
    if not shown:
        return None
    figure, panels = canvas.paper(1.6 + 1.9 * len(shown), 3.0, len(shown), sharey=True)
    for i, (axes, (name, system)) in enumerate(zip(panels, shown.items(), strict=True)):
        _panel(axes, name, system, canvas.colour(i))
    panels[0].set_ylabel("share of rounds (%)")
    figure.suptitle("Executed verification lengths", fontsize=10)
    canvas.caption(
        figure,
        results,
        [
            "w counts target inputs: the anchor and w - 1 drafts. Dashed: the mean.",
            *canvas.left_out([n for n in choosing if n not in shown], f"more than {MOST} systems"),
        ],
    )
    return figure


def _fixed(name: str) -> bool:
    return name.startswith("static:") or name in FIXED or name == "static"


def shares(system: dict[str, Any]) -> Bars:
    """Per cent of the rounds by w, from 1 to the longest there is a place for."""
    counts = system["verification_length_histogram"]
    return {w: 100 * count / sum(counts) for w, count in enumerate(counts) if w}


def _panel(axes: Axes, name: str, system: dict[str, Any], colour: str) -> None:
    bars = shares(system)
    axes.bar(list(bars), list(bars.values()), width=0.85, color=colour)
    mean = system["mean_verification_length"]
    axes.axvline(mean, color="black", linestyle="--", linewidth=1)
    axes.set_title(f"{canvas.name(name)}\nmean w {mean:.1f}", fontsize=9)
    axes.set_xlabel("w")
    axes.set_xticks([w for w in bars if w % 4 == 0 or w == 1])
    axes.grid(axis="y", alpha=0.3)
