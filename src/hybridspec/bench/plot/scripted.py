"""Pictures of scripted runs: speed-up by category, rounds by length, tokens a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

from hybridspec.bench.plot import canvas
from hybridspec.bench.scripted.paper import published
from hybridspec.bench.scripted.sglang import MODES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Document = Mapping[str, Any]
FEW = 6  # systems whose bars can be told apart side by side
FIRST = (
    "hybridspec", "dflash", "evict+replayssm", "evict", "dcut", "static", "replayssm", "length16",
    "static:4",
)  # fmt: skip
NAMED = {"dflash": (0, 8), "hybridspec": (12, -14)}  # whose mean rounds are shown; where names are
PEER = "#222222"
TIMES = "\N{MULTIPLICATION SIGN}"


def speedup(document: Document) -> Figure | None:
    """Bars of SR by category with the paper's beside; None without any system but `ar`."""
    systems = [name for name in document["systems"] if name != "ar"]
    if not systems:
        return None
    chosen = sorted(systems, key=lambda n: FIRST.index(n) if n in FIRST else len(FIRST))[:FEW]
    shown = [name for name in systems if name in chosen]
    groups = ["mean", *document["systems"]["ar"]["categories"]]
    figure, (axes,) = canvas.paper(min(16.0, 3.5 + 0.16 * len(groups) * (len(shown) + 1)), 4.0)
    thick = min(0.3, 0.84 / len(shown))
    for i, name in enumerate(shown):
        places = [at + (i + 0.5 - len(shown) / 2) * thick for at in range(len(groups))]
        _bars(axes, document, name, groups, places, thick, canvas.colour(i))
    axes.axhline(1.0, color=canvas.GREY, linewidth=1, label="ar (1)")
    axes.axvline(0.5, color=canvas.GREY, linewidth=0.5)
    axes.set(xlim=(-0.6, len(groups) - 0.4), ylabel=f"decode tokens/s over those of ar ({TIMES})")
    axes.set_xticks(range(len(groups)), groups)
    axes.grid(axis="y", alpha=0.3)
    axes.set_title("Decode speed-up by category", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="system (mean)")
    notes = canvas.left_out([n for n in systems if n not in shown], "to keep bars apart")
    canvas.foot(figure, [
        f"Black marks: the paper's Table 1 for {document['pair']} (SGLang, one A100), means over "
        "the same categories.", *notes, *source(document),
    ])  # fmt: skip
    return figure


def _bars(
    axes: Axes, document: Document, name: str, groups: Sequence[str], places: Sequence[float],
    thick: float, colour: str,
) -> None:  # fmt: skip
    """One system's, a mark for each that the paper has."""
    body = document["systems"][name]
    found = {"mean": body["mean"]} | body["categories"]
    paper = published(document["pair"], name, body["categories"])
    heights = [found[group]["speedup"] for group in groups]
    label = f"{name} ({heights[0]:.2f}{TIMES})"
    axes.bar(places, heights, thick * 0.92, color=colour, label=label)
    marks = [
        (x, paper[group][1]) for x, group in zip(places, groups, strict=True) if group in paper
    ]  # fmt: skip
    for x, value in marks:
        axes.hlines(value, x - 0.46 * thick, x + 0.46 * thick, color="black", linewidth=1.4)


def round_time(document: Document) -> Figure:
    """Whole rounds by w: calibration's of every verifier, SGLang's, and mean rounds of systems."""
    figure, (axes,) = canvas.paper(7.6, 4.4)
    costs = document["profile"]["cost"]
    for i, ((name, cost), mark) in enumerate(zip(costs.items(), cycle("osD^"))):
        ms = {1: cost["plain_ms"]} | {int(w): t for w, t in cost["ms"].items()}
        label = f"ours, {name.partition('/')[0]}"
        axes.plot([*ms], [*ms.values()], f"{mark}-", color=canvas.colour(i), markersize=4 + 2 * i,
                  fillstyle="none", linewidth=1, label=label)  # fmt: skip
    peers = document.get("against", {}).get("modes", {})
    if peers:
        axes.plot(
            [MODES[mode] for mode in peers], [p["ms_per_round"] for p in peers.values()], "s",
            color=PEER, markersize=5, label="SGLang 0.5.16",
        )  # fmt: skip
    for name, beside in ((n, place) for n, place in NAMED.items() if n in document["systems"]):
        mean = document["systems"][name]["mean"]
        at = (mean["mean_w"], mean["ms_per_round"])
        axes.plot(*at, "x", color="black", markersize=6)
        axes.annotate(name, at, beside, textcoords="offset points", ha="center", fontsize=8)
    axes.set(xlabel="w, target inputs of a round", ylabel="time of a whole round (ms)")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 17.5)
    axes.set_xticks([1, 2, 4, 6, 8, 10, 12, 14, 16])
    axes.grid(alpha=0.3)
    axes.set_title("Time of a round by its length, drafting included", fontsize=10)
    figure.legend(loc="outside right upper", frameon=False, title="rounds of")
    note = "Lines of ours: calibration, by GDN verifier. Crosses: systems at their mean w."
    canvas.foot(figure, [note, *_unequal(document), *source(document)])
    return figure


def tokens(document: Document) -> Figure:
    """Bars of tokens a second of every system, SGLang's at the same acceptance among them."""
    rates = {n: s["mean"]["tokens_per_second"] for n, s in document["systems"].items()}
    colours = {name: canvas.GREY if name == "ar" else canvas.colour(0) for name in rates}
    colours["hybridspec"] = canvas.colour(1)
    for mode, body in document.get("against", {}).get("modes", {}).items():
        if "tokens_per_second" in body:
            name = f"SGLang {mode}"
            rates[name], colours[name] = body["tokens_per_second"]["mean"], PEER
    names = sorted(rates, key=lambda name: rates[name])
    figure, (axes,) = canvas.paper(7.6, 1.6 + 0.27 * len(names))
    axes.barh(range(len(names)), [rates[n] for n in names], color=[colours[n] for n in names])
    for row, name in enumerate(names):
        axes.annotate(f"{rates[name]:.0f}", (rates[name], row), (4, 0),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlim(0, 1.1 * max(rates.values()))
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("decode tokens a second, mean over categories")
    axes.set_title("Tokens a second, one sequence", fontsize=10)
    note = (
        "Black: SGLang's measured time a round, at the acceptance of our system of the same length."
    )
    peers = any(name.startswith("SGLang ") for name in names)
    canvas.foot(figure, [*([note] if peers else []), *_unequal(document), *source(document)])
    return figure


def _unequal(document: Document) -> list[str]:
    """The sentence about distinct experts, where SGLang's were counted and are others."""
    modes = document.get("against", {}).get("modes", {})
    told = [
        f"{mode} {u['sglang']:.1f}, ours {u['ours']:.1f}"
        for mode, u in ((mode, body["distinct"]) for mode, body in modes.items())
        if u["equal"] is False
    ]
    return [f"Distinct experts a layer are not equal: SGLang {'; '.join(told)}."] if told else []


def source(document: Document) -> list[str]:
    """Where and how it was measured."""
    machine, run = document["machine"], document["run"]
    commit = (run["commit"] or "unknown")[:9]
    return [
        f"Scripted weights and drafts, all work real. {machine.get('gpu') or machine['cpu']}, "
        f"torch {machine['torch']}, commit {commit}, {run['date'][:10]}; launcher "
        f"{document['executor']}, {document['context']} tokens of context, routing "
        f"{document['routing']}, acceptance of {document['pair']}."
    ]
