"""Pictures of the results: speed-up by category and by w, acceptance, the cost of a round by w.

matplotlib is an extra: `pip install hybridspec[plot]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.errors import HybridSpecError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BARS = 4  # systems side by side; more could not be told apart
# Okabe and Ito's colours, which colour-blind readers can tell apart; plain decoding is grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
GREY = "#777777"
FEW = 8  # rounds below which a median time says little


def check_matplotlib() -> None:
    """Raises HybridSpecError, with what to install, where matplotlib is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise HybridSpecError(
            "--plot needs matplotlib, which is not installed; install it with "
            "`pip install matplotlib` (or hybridspec's extra `plot`), or leave out --plot."
        ) from None


def draw(results: dict[str, Any], out: Path) -> list[Path]:
    """Draw `speedup`, `lengths`, `acceptance` and `round_cost` as PNG and SVG into `out`.

    Args:
        results: as `results.assemble` gives them.
        out: an existing folder.

    Returns:
        The PNG files. A picture without anything to show is left out.

    Raises:
        HybridSpecError: no matplotlib, or a folder that cannot be written.
    """
    check_matplotlib()
    pictures = {
        "speedup": speedup_figure(results),
        "lengths": lengths_figure(results),
        "acceptance": acceptance_figure(results),
        "round_cost": cost_figure(results),
    }
    return [_save(figure, out / name) for name, figure in pictures.items() if figure is not None]


def speedup_figure(results: dict[str, Any]) -> Figure | None:
    """Bars of speed-up, all prompts first and then by category, with 95% intervals."""
    systems = results["systems"]
    names = _fastest([n for n in systems if n != results["baseline"]], systems)
    if not names:
        return None
    groups = ["all prompts", *results["prompts"]]
    figure, axes = _figure(min(14.0, max(6.0, 1.2 + 0.34 * len(groups) * (len(names) + 1))))
    width = min(0.4, 0.8 / len(names))
    for i, name in enumerate(names):
        sets = [systems[name], *(systems[name]["categories"].get(g) for g in groups[1:])]
        places = [at + (i + 0.5 - len(names) / 2) * width for at in range(len(groups))]
        _bars(axes, places, sets, width, COLOURS[i], name)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set_xticks(
        range(len(groups)), groups, rotation=25 if len(groups) > 5 else 0, ha=_ha(groups)
    )
    axes.set_ylabel(f"speed-up over {results['baseline']}")
    left_out = len(systems) - 1 - len(names)
    axes.set_title(
        "Decode speed-up, 95% intervals over prompts"
        + (f" ({left_out} more measured)" if left_out else "")
    )
    _legend(axes, len(names))
    return figure


def lengths_figure(results: dict[str, Any]) -> Figure | None:
    """Speed-up of `static:W` by W: all prompts, with its 95% interval, and each category."""
    systems = {int(n[7:]): s for n, s in results["systems"].items() if n.startswith("static:")}
    all_prompts = {w: s["speedup"] for w, s in sorted(systems.items()) if s["speedup"]}
    if len(all_prompts) < 3:
        return None
    figure, axes = _figure(7.6)
    for i, category in enumerate(results["prompts"]):
        sets = {w: systems[w]["categories"].get(category) for w in all_prompts}
        values = {w: s["speedup"]["value"] for w, s in sets.items() if s and s["speedup"]}
        axes.plot(list(values), list(values.values()), _style(i), color=_colour(i), label=category)
    middle = [s["value"] for s in all_prompts.values()]
    axes.plot(list(all_prompts), middle, "o-", color="black", linewidth=2.5, label="all prompts")
    if all(s["low"] is not None for s in all_prompts.values()):
        low, high = ([s[end] for s in all_prompts.values()] for end in ("low", "high"))
        axes.fill_between(list(all_prompts), low, high, color="black", alpha=0.15, linewidth=0)
    axes.axhline(1.0, color=GREY, linewidth=1)
    axes.set(xlabel="W, target inputs of every round", xticks=list(all_prompts))
    axes.set_ylabel(f"speed-up over {results['baseline']}")
    axes.set_title("Decode speed-up by fixed length")
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure


def acceptance_figure(results: dict[str, Any]) -> Figure | None:
    """Share of rounds that accept at least A drafts, for the systems that draft."""
    systems = {
        name: s["acceptance_histogram"]
        for name, s in results["systems"].items()
        if s["rounds"] and _longest(s) > 1
    }
    if not systems:
        return None
    figure, (bars, curves) = _figure(9.5, columns=2)
    widest = max(systems, key=lambda name: _longest(results["systems"][name]))
    shares = _shares(systems[widest])
    bars.bar(range(len(shares)), shares, color=COLOURS[0])
    bars.set(xlabel="A, accepted drafts", ylabel="share of rounds")
    bars.set_title(f"Acceptance of {widest}")
    for i, (category, s) in enumerate(results["systems"][widest]["categories"].items()):
        if s["rounds"]:
            tail = _at_least(s["acceptance_histogram"])
            curves.plot(tail, _style(i), color=_colour(i), label=category)
    curves.set(
        xlabel="A, accepted drafts", ylabel="share of rounds with at least A", ylim=(0, 1.03)
    )
    curves.set_title(f"Acceptance of {widest} by category")
    curves.legend(frameon=False, fontsize=8)
    for axes in (bars, curves):
        axes.set_xlim(-0.6, len(shares) - 0.4)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def cost_figure(results: dict[str, Any]) -> Figure | None:
    """C(w): median time of a round by w with quartiles; each kind of system has its colour."""
    kinds: dict[str, list[dict[str, Any]]] = {_kind(name): [] for name in results["systems"]}
    for cost in sorted(results["round_costs"], key=lambda cost: int(cost["w"])):
        if cost["rounds"] >= FEW and cost["w"] == _nominal(results, cost["system"]):
            kinds[_kind(cost["system"])].append(cost)
    if not any(kinds.values()):
        return None
    figure, axes = _figure(6.4)
    colours = iter(COLOURS)
    for kind, rows in kinds.items():
        middle = [1e3 * row["median"] for row in rows]
        below = [1e3 * (row["median"] - row["low"]) for row in rows]
        above = [1e3 * (row["high"] - row["median"]) for row in rows]
        colour = GREY if kind == "ar" else next(colours)
        axes.errorbar(
            [row["w"] for row in rows], middle, (below, above),
            fmt="o-", color=colour, capsize=3, label=kind,
        )  # fmt: skip
    axes.set_ylim(bottom=0)
    axes.set(xlabel="w, target inputs of a round", ylabel="ms a round, drafting included")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_title("Time of a round (median and quartiles)")
    axes.legend(frameon=False)
    return figure


def _figure(width: float, columns: int = 1) -> tuple[Figure, Any]:
    """A figure without pyplot: no window, no global state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 3.8), layout="constrained")
    axes = figure.subplots(1, columns)
    for each in [axes] if columns == 1 else axes:
        each.spines[["top", "right"]].set_visible(False)
        each.grid(axis="y", alpha=0.3)
        each.set_axisbelow(True)
    return figure, axes


def _fastest(names: Sequence[str], systems: dict[str, Any]) -> list[str]:
    """The systems that get bars, in their order: the fastest of each kind, then the next ones."""
    speeds = {n: float(systems[n]["speedup"]["value"]) for n in names if systems[n]["speedup"]}
    ranked = sorted(speeds, key=speeds.__getitem__, reverse=True)
    first_of_kind = list({_kind(n): n for n in reversed(ranked)}.values())
    best = sorted(ranked, key=lambda n: n not in first_of_kind)[:BARS]
    return [n for n in names if n in best]


def _kind(system: str) -> str:
    """`static` of `static:5`."""
    return system.partition(":")[0]


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _style(i: int) -> str:
    """Another dash once the colours are used up."""
    return ("-", "--", ":")[i // len(COLOURS) % 3]


def _bars(
    axes: Axes, places: Sequence[float], sets: Sequence[Any], width: float, colour: str, name: str
) -> None:
    speedups = [s and s["speedup"] for s in sets]
    values = [s["value"] if s else 0.0 for s in speedups]
    axes.bar(places, values, width * 0.92, color=colour, label=name)
    for place, s in zip(places, speedups, strict=True):
        if s and s["low"] is not None:
            axes.vlines(place, s["low"], s["high"], color="black", linewidth=1)


def _longest(s: dict[str, Any]) -> int:
    """The longest w that a system ran."""
    return max(w for w, n in enumerate(s["verification_length_histogram"]) if n)


def _nominal(results: dict[str, Any], system: str) -> int:
    """The w of a fixed-length system; its last rounds near the token limit are shorter."""
    s = results["systems"][system]
    return _longest(s) if s["rounds"] else 0


def _shares(histogram: Sequence[int]) -> list[float]:
    return [n / sum(histogram) for n in histogram]


def _at_least(histogram: Sequence[int]) -> list[float]:
    """Share of rounds with at least A = 0, 1, ... accepted drafts."""
    return [sum(histogram[a:]) / sum(histogram) for a in range(len(histogram))]


def _ha(groups: Sequence[str]) -> Any:
    return "right" if len(groups) > 5 else "center"


def _legend(axes: Axes, columns: int) -> None:
    axes.legend(frameon=False, ncols=columns, loc="upper right", fontsize=9)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.15)  # room for the legend above the bars


def _save(figure: Figure, stem: Path) -> Path:
    try:
        figure.savefig(stem.with_suffix(".svg"))
        figure.savefig(stem.with_suffix(".png"), dpi=150)
    except OSError as error:
        raise HybridSpecError(f"{stem}.png cannot be written: {error.strerror}.") from None
    return stem.with_suffix(".png")
