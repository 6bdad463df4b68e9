"""Pictures of a calibration profile: how reliable its probabilities are, and what rounds cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from math import sqrt
from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hybridspec.policy.profile import Cost, Profile

NAMES = {"confidence": "raw confidence", "isotonic": "isotonic curves", "model": "whole model"}
COLOURS = {"confidence": canvas.GREY, "isotonic": canvas.colour(1), "model": canvas.colour(0)}
MARKS = {"confidence": "s", "isotonic": "^", "model": "o"}
STEPS = 60  # of a fitted curve


def reliability(profile: Profile) -> Figure | None:
    """Share of drafts accepted against the probability given to them, before and after calibration,
    and the expected calibration error of each position. None where it was not measured."""
    judged = profile.data.get("reliability")
    if not judged:
        return None
    figure, (diagram, positions) = canvas.paper(11.0, 4.6, 2)
    for name, label in NAMES.items():
        _judged(diagram, positions, name, label, judged[name])
    diagram.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    diagram.set(xlabel="mean probability of a bin", ylabel="share of its drafts accepted")
    diagram.set(xlim=(0, 1), ylim=(0, 1))
    positions.set(xlabel="i, position of the draft", ylabel="expected calibration error (%)")
    positions.set_ylim(bottom=0)
    canvas.whole_numbers(positions)
    for axes in (diagram, positions):
        axes.grid(alpha=0.3)
    diagram.set_title("Reliability, all positions", fontsize=10)
    positions.set_title("Error by position", fontsize=10)
    handles = diagram.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper", frameon=False, title="error over all")
    reached = profile.data["reached"]
    note = (
        "Probability that a draft is accepted once those before it are; each prompt judged by fits "
        "made without its fifth of the prompts. Black: perfect reliability. The first draft was "
        f"judged {reached[0]} times, the last {reached[-1]}: errors of few are mostly noise."
    )
    canvas.foot(figure, [note, *_source(profile)])
    return figure


def _judged(
    diagram: Axes, positions: Axes, name: str, label: str, judged: Mapping[str, Any]
) -> None:
    """One way of giving probabilities: a line in both diagrams."""
    form: Any = {"marker": MARKS[name], "markersize": 4, "color": COLOURS[name], "linewidth": 1.2}
    given, happened, _ = zip(*judged["bins"], strict=True)
    diagram.plot(given, happened, label=f"{label} {100 * judged['ece']:.1f}%", **form)
    errors = [100 * e for e in judged["ece_by_position"]]
    positions.plot(range(1, len(errors) + 1), errors, **form)


def cost(profile: Profile) -> Figure:
    """C_tgt(w) with its fit and whole rounds over plain ones for every verifier; draft calls."""
    figure, (target, rounds, drafts) = canvas.paper(13.0, 4.4, 3, width_ratios=(4, 4, 3))
    for i, ((name, each), mark) in enumerate(zip(profile.cost.items(), cycle("osD^v"))):
        _target(target, each, canvas.colour(i), mark, name)
        over = [ms / each.plain_ms for ms in each.ms.values()]
        rounds.plot([*each.ms], over, f"{mark}-", color=canvas.colour(i), markersize=4, linewidth=1)
    rounds.axhline(1.0, color=canvas.GREY, linewidth=1)
    count = range(1, len(profile.draft_ms) + 1)
    drafts.plot(count, profile.draft_ms, "o-", color="black", markersize=4)
    target.set(xlabel="w, target inputs of a round", ylabel="C_tgt(w) (ms)")
    rounds.set(xlabel="w, target inputs of a round", ylabel="whole round over a plain one")
    drafts.set(xlabel="drafts asked for", ylabel="time of a draft call (ms)")
    for axes, title in ((target, "Rounds less a whole draft call, and fit"),
                        (rounds, "Rounds at every w"),
                        (drafts, "Draft calls")):  # fmt: skip
        axes.set_title(title, fontsize=10)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        canvas.whole_numbers(axes)
    handles = target.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right upper", frameon=False, title="verifier, fit error")
    note = "A round pays where it emits more tokens than the plain rounds that it costs (middle)."
    canvas.foot(figure, [note, *_source(profile)])
    return figure


def _target(axes: Axes, cost: Cost, colour: str, mark: str, name: str) -> None:
    """Measured points and the quadratic; the legend names the root mean square error."""
    a, b, c = cost.quadratic

    def fit(w: float) -> float:
        return a + b * w + c * w * w - cost.fixed_ms

    points = {w: ms - cost.fixed_ms for w, ms in sorted(cost.ms.items())}
    error = sqrt(sum((fit(w) - ms) ** 2 for w, ms in points.items()) / len(points))
    axes.plot([*points], [*points.values()], mark, color=colour, markersize=4,
              label=f"{name.partition('/')[0]}, {error:.2f} ms")  # fmt: skip
    first, last = min(points), max(points)
    w = [first + (last - first) * i / STEPS for i in range(STEPS + 1)]
    axes.plot(w, [fit(x) for x in w], color=colour, linewidth=1.2)


def _source(profile: Profile) -> list[str]:
    """Where the profile was made, and of what."""
    runtime, data = profile.runtime, profile.data
    facts = [
        runtime.get("gpu", ""),
        runtime.get("cpu", ""),
        f"threads: {runtime['threads']}" if "threads" in runtime else "",
        f"{runtime.get('dtype')} on {runtime.get('device')}",
        f"torch {runtime['torch']}" if "torch" in runtime else "",
    ]
    counts = [f"{data[n]} {n}" for n in ("prompts", "positions", "rounds") if n in data]
    machine = ", ".join(filter(None, facts)) + "."
    return [machine, f"Calibration with {', '.join(counts)}."] if counts else [machine]
