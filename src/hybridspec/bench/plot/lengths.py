"""Speed-up of `static:W` by W."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEAST = 3  # lengths that make a line


def draw(results: dict[str, Any]) -> Figure | None:
    """All prompts with the 95% interval, and each category, of the kind with the most lengths;
    other kinds (the block verifier) as a line over all prompts. None for fewer than three lengths.
    """
    kinds = _kinds(results)
    if not kinds or max(map(len, kinds.values())) < LEAST:
        return None
    first = max(kinds, key=lambda kind: len(kinds[kind]))
    main = kinds.pop(first)
    figure, (axes,) = canvas.paper(8.0, 4.2)
    for i, category in enumerate(results["prompts"]):
        sets = {w: s["categories"].get(category) for w, s in main.items()}
        values = {w: s["speedup"]["value"] for w, s in sets.items() if s and s["speedup"]}
        _line(axes, values, canvas.dashes(i), color=canvas.colour(i), label=canvas.name(category))
    for i, (kind, systems) in enumerate(kinds.items()):
        values = {w: s["speedup"]["value"] for w, s in systems.items()}
        _line(axes, values, ("s--", "^:")[i % 2], color="black", label=f"all prompts, {kind}")
    _all_prompts(axes, main)
    axes.axhline(1.0, color=canvas.GREY, linewidth=1, label=f"{results['baseline']} (1)")
    axes.grid(axis="y", alpha=0.3)
    axes.set(xlabel="W, target inputs of every round", xticks=sorted(main))
    axes.set_ylabel(
        f"decode tokens/s over those of {results['baseline']} (\N{MULTIPLICATION SIGN})"
    )
    axes.set_title(f"Decode speed-up by fixed length ({first}:W)", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="category")
    canvas.caption(figure, results)
    return figure


def _kinds(results: dict[str, Any]) -> dict[str, dict[int, Any]]:
    """The systems of fixed length that have a speed, by kind and by W."""
    kinds: dict[str, dict[int, Any]] = {}
    for name, s in results["systems"].items():
        if name.startswith("static:") and s["speedup"]:
            kinds.setdefault(canvas.kind(name), {})[canvas.length(name)] = s
    return {kind: dict(sorted(systems.items())) for kind, systems in kinds.items()}


def _all_prompts(axes: Axes, systems: dict[int, Any]) -> None:
    speedups = {w: s["speedup"] for w, s in systems.items()}
    values = {w: s["value"] for w, s in speedups.items()}
    bounded = all(s["low"] is not None for s in speedups.values())
    label = "all prompts (95%)" if bounded else "all prompts"
    _line(axes, values, "o-", color="black", linewidth=2.5, label=label)
    if bounded:
        low, high = ([s[end] for s in speedups.values()] for end in ("low", "high"))
        axes.fill_between(list(values), low, high, color="black", alpha=0.15, linewidth=0)


def _line(axes: Axes, values: dict[int, float], form: str, **how: Any) -> None:
    axes.plot(list(values), list(values.values()), form, **how)
