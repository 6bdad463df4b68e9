"""What all pictures share: paper, colours, names, the caption with the machine, files."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.bench.tables import drawn
from hybridspec.errors import HybridSpecError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A dollar in a name is a dollar; the same results give the same SVG.
STYLE: Any = {"text.parse_math": False, "svg.hashsalt": "hybridspec", "font.size": 9}
# Okabe and Ito's colours, which colour-blind readers can tell apart; plain decoding is grey.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
GREY = "#777777"
LONGEST_NAME = 20
LETTERS = 18  # of the caption, in an inch


def paper(width: float, height: float, columns: int = 1, **how: Any) -> tuple[Figure, list[Axes]]:
    """A figure without pyplot: no window, no global state. Sizes in inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    figure = Figure(figsize=(width, height), layout=layout)
    axes = list(figure.subplots(1, columns, squeeze=False, **how)[0])
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.set_axisbelow(True)
    return figure, axes


def caption(figure: Figure, results: dict[str, Any], notes: Sequence[str] = ()) -> None:
    """Below the picture: notes, such as what is not in it and why, the machine, what was run."""
    foot(figure, [*notes, _machine(results), _work(results)])


def foot(figure: Figure, sentences: Sequence[str]) -> None:
    """Sentences below the picture, a new line each."""
    letters = int(LETTERS * figure.get_figwidth())
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, letters)]
    figure.supxlabel("\n".join(lines), x=0.012, ha="left", fontsize=7, color="#444444")


def whole_numbers(axes: Axes) -> None:
    """Ticks of the x axis that counts something."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def left_out(names: Sequence[str], reason: str) -> list[str]:
    """The sentence about systems that a picture does not show; none if there are none."""
    return [f"Not shown, {reason}: {', '.join(names)}."] if names else []


def kind(system: str) -> str:
    """`static` of `static:5`, `static block` of `static:5:block`; others are a kind each."""
    name, _, rest = system.partition(":")
    if name != "static":
        return system
    verifier = rest.partition(":")[2]
    return f"{name} {verifier}" if verifier not in ("", "exact") else name


def length(system: str) -> int:
    """5 of `static:5` and of `static:5:block`."""
    return int(system.split(":")[1])


def colour(i: int) -> str:
    """The i-th of the colours, again and again."""
    return COLOURS[i % len(COLOURS)]


def dashes(i: int) -> str:
    """Another dash once the colours are used up."""
    return ("-", "--", ":", "-.")[i // len(COLOURS) % 4]


def kind_colours(systems: Sequence[str]) -> dict[str, str]:
    """A colour for each kind of system."""
    kinds = [k for k in dict.fromkeys(map(kind, systems)) if k != "ar"]
    return {"ar": GREY} | {k: colour(i) for i, k in enumerate(kinds)}


def name(text: str) -> str:
    """A name short enough for an axis. matplotlib leaves names with _ first out of legends."""
    short = (
        text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "\N{HORIZONTAL ELLIPSIS}"
    )
    return f" {short}" if short.startswith("_") else short


def save(figure: Figure, stem: Path) -> Path:
    """STEM.svg and STEM.png; gives the latter.

    Raises:
        HybridSpecError: they cannot be written.
    """
    png, svg = (stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "svg"))
    try:
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=150)
    except OSError as error:
        raise HybridSpecError(f"{png} cannot be written: {error.strerror}.") from None
    return png


def _machine(results: dict[str, Any]) -> str:
    setup, runs = results["setup"], results["runs"]
    where = dict.fromkeys(f"{run['dtype']} on {run['device']}" for run in runs)
    facts = [
        *([setup["gpu"]] if "gpu" in setup else []),
        setup["cpu"],
        f"{setup['cores']} cores",
        f"threads: {setup['threads']}",
        *where,
        f"torch {setup['torch']}",
        f"hybridspec {setup['hybridspec']}",
    ]
    return ", ".join(facts) + "."


def _work(results: dict[str, Any]) -> str:
    setup = results["setup"]
    dates = sorted({run["date"][:10] for run in results["runs"]})
    days = f"; {' to '.join(dict.fromkeys((dates[0], dates[-1])))}" if dates else ""
    return (
        f"{setup['model']}; {sum(results['prompts'].values())} {setup['prompt_form']} prompts, "
        f"{drawn(setup)}, answers of at most {setup['max_tokens']} tokens, repeats: "
        f"{results['repeats']}{days}."
    )
