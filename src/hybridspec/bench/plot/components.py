"""The paper's Figure 1: what a verification call is spent on, by its length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hybridspec.bench.component_fits import COMPONENTS, curve, typical
from hybridspec.bench.component_report import NAMES
from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = {part: canvas.colour(i) for i, part in enumerate(COMPONENTS)} | {"drafter": "black"}
STEPS = 60  # of a fitted curve
SHIFT = 0.08  # to the side, so that no interval hides another
Document = Mapping[str, Any]


def draw(document: dict[str, Any]) -> Figure | None:
    """Stacked medians with the drafter beside and target-to-drafter ratios; each component alone
    with quartiles, fits and growth. None without any length."""
    if not document["lengths"]:
        return None
    figure, (stack, lines) = canvas.paper(11.0, 4.6, 2)
    _stacked(stack, document)
    for i, part in enumerate((*COMPONENTS, "drafter")):
        _line(lines, document, part, SHIFT * (i - 2))
    for part in ("gdn", "moe"):
        _fitted(lines, document, part)
    for axes in (stack, lines):
        axes.set(xlabel="w, target inputs of a verification", ylabel="time of a call (ms)")
        axes.set_xticks([row["w"] for row in document["lengths"]])
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
    stack.set_title("Target by component, drafter, and their ratio", fontsize=10)
    lines.set_title("Each component: median, quartiles and fit", fontsize=10)
    figure.legend(
        *lines.get_legend_handles_labels(),
        loc="outside right upper",
        frameon=False,
        title=_legend(document),
    )
    note = (
        "Above the bars: time of the target over that of the drafter. Dashes: GDN a + b w, MoE "
        f"c w^d. GDN verifier: {document['setup']['verifier']}."
    )
    canvas.caption(figure, document, [note])
    return figure


def _stacked(axes: Axes, document: Document) -> None:
    rows = document["lengths"]
    lengths, below = [row["w"] for row in rows], [0.0] * len(rows)
    for part in COMPONENTS:
        heights = [typical(row, part) for row in rows]
        axes.bar(lengths, heights, 0.7, below, color=COLOURS[part])
        below = [a + b for a, b in zip(below, heights, strict=True)]
    for row, top in zip(rows, below, strict=True):
        ratio = row["target_to_drafter"]
        if ratio is not None:
            axes.annotate(
                f"{ratio:.1f}", (row["w"], top), (0, 3), textcoords="offset points", ha="center",
                fontsize=7.5,
            )  # fmt: skip
    drafted = [row for row in rows if row["drafter_ms"] is not None]
    times = [typical(row, "drafter") for row in drafted]
    axes.plot([row["w"] for row in drafted], times, "o-", color=COLOURS["drafter"], markersize=3)


def _line(axes: Axes, document: Document, part: str, shift: float) -> None:
    rows = [row for row in document["lengths"] if part != "drafter" or row["drafter_ms"]]
    spreads = [
        row["components_ms"][part] if part in COMPONENTS else row["drafter_ms"] for row in rows
    ]
    middle = [each["median"] for each in spreads]
    below = [each["median"] - each["low"] for each in spreads]
    above = [each["high"] - each["median"] for each in spreads]
    growth = document["growth"]
    share = growth and growth[part]
    label = NAMES[part] if share is None else f"{NAMES[part]} {100 * share:+.0f}%"
    fitted = part in ("gdn", "moe") and _fit(document, part) is not None
    axes.errorbar(
        [row["w"] + shift for row in rows], middle, (below, above), fmt="o" if fitted else "o-",
        color=COLOURS[part], markersize=3.5, elinewidth=0.8, capsize=2, label=label,
    )  # fmt: skip


def _fitted(axes: Axes, document: Document, part: str) -> None:
    fit = _fit(document, part)
    if fit is None:
        return
    first, last = fit["lengths"][0], fit["lengths"][-1]
    w = [first + (last - first) * i / STEPS for i in range(STEPS + 1)]
    axes.plot(w, curve(fit, part, w), "--", color=COLOURS[part])


def _fit(document: Document, part: str) -> Document | None:
    """The fit over the most lengths, if there is one of this component."""
    fits: list[Document] = [fit for fit in document["fits"] if fit[part]]
    return max(fits, key=lambda fit: len(fit["lengths"]), default=None)


def _legend(document: Document) -> str:
    growth = document["growth"]
    return f"growth, w = {growth['from']} to {growth['to']}" if growth else "component"
