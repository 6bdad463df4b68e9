"""The paper's Tables 1 and 3, and what a round was, its own figures beside."""

from __future__ import annotations

from collections.abc import Sequence

from hybridspec.bench.options import ABLATION, WHOLE
from hybridspec.bench.scripted.paper import ROUNDS, TABLE_3, Cell, published
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table

PAPER = "in the paper"


def main_table(document: Document) -> Table:
    """Table 1: AL and SR of every system in every category; the paper's below each."""
    systems = document["systems"]
    categories = [*systems["ar"]["categories"]]
    rows: list[tuple[str, ...]] = []
    for name, body in systems.items():
        each = (*body["categories"].values(), body["mean"])
        rows.append((name, *(_cell((f["acceptance_length"], f["speedup"])) for f in each)))
        if paper := published(document["pair"], name, categories):
            rows.append((PAPER, *map(_cell, paper.values())))
    note = (
        "AL: tokens a round. SR: speed over that of ar. Avg.: mean over the categories here. The "
        f"paper's rows are its Table 1 for {document['pair']}, measured with SGLang on one A100."
    )
    return Table("AL and SR by category (the paper's Table 1)",
                 ("system", *categories, "Avg."), tuple(rows), note)  # fmt: skip


def numbered(documents: Sequence[Document]) -> Table | None:
    """All runs of a report, as its other tables name them; None where there is one."""
    rows = []
    for place, document in enumerate(documents, 1):
        run, u = document["run"], document["facts"]["distinct"]
        rows.append((
            str(place), (run["commit"] or "unknown")[:9], run["date"][:10], document["executor"],
            document["pair"], document["routing"], " / ".join(f"{n:.1f}" for n in u.values()),
        ))  # fmt: skip
    header = ("run", "commit", "date", "launcher", "acceptance of", "routing", "U")
    note = "Tables without a run's number are of the first. U: distinct experts a layer at w = "
    note += f"{' / '.join(documents[0]['facts']['distinct'])}."
    return Table("Runs", header, tuple(rows), note) if len(rows) > 1 else None


def settings(alike: Sequence[Document], others: Sequence[Document]) -> Table | None:
    """Runs of another acceptance or routing beside the first, in the systems that all have."""
    compared = [(1, alike[0]), *enumerate(others, len(alike) + 1)]
    rows = []
    for place, document in compared if others else ():
        for name, body in document["systems"].items():
            if all(name in other["systems"] for _, other in compared):
                m = body["mean"]
                least = min(f["speedup"] for f in body["categories"].values())
                rows.append((
                    str(place), document["pair"], document["routing"], name,
                    f"{m['tokens_per_second']:.0f}", f"{m['speedup']:.2f}", f"{least:.2f}",
                    f"{m['acceptance_length']:.2f}", f"{m['mean_w']:.2f}",
                    f"{m['ms_per_round']:.3f}",
                ))  # fmt: skip
    header = ("run", "acceptance of", "routing", "system", "tokens/s", "over ar", "least", "AL",
              "w", "ms a round")  # fmt: skip
    return Table("Other acceptance and routing", header, tuple(rows)) if rows else None


def rounds(document: Document) -> Table:
    """Tokens a second, then what a round was."""
    systems, known = document["systems"], ROUNDS[document["pair"]]
    dflash = systems.get("dflash")
    rows = []
    for name, body in systems.items():
        m, paper = body["mean"], known.get(name)
        least = min(f["speedup"] for f in body["categories"].values())
        over = f"{m['speedup'] / dflash['mean']['speedup']:.2f}" if dflash else MISSING
        theirs = f"{paper[0]:g}, {paper[1]:.1f}" if paper else MISSING
        rows.append((
            name, f"{m['tokens_per_second']:.0f}", f"{m['speedup']:.2f}", f"{least:.2f}", over,
            f"{m['acceptance_length']:.2f}", f"{m['mean_w']:.2f}", f"{m['ms_per_round']:.3f}",
            theirs,
        ))  # fmt: skip
    header = ("system", "tokens/s", "over ar", "least", "over dflash", "AL", "w", "ms a round",
              "paper: w, ms")  # fmt: skip
    note = "Means over categories; least: the least SR of a category; w: mean inputs of a round."
    return Table("Speed and rounds", header, tuple(rows), note)


def components(document: Document) -> Table | None:
    """Table 3: what hybridspec gains by each part; None without it or without any variant."""
    systems, paper = document["systems"], document["pair"] == "qwen3.6"
    variants = [name for name in ABLATION if name in systems]
    if WHOLE not in systems or not variants:
        return None
    rows = [_component(document, name, TABLE_3[name] if paper else None) for name in variants]
    header = ("component", "replaced by", "w", "AL", "SR", "gain",
              *(f"paper: {name}" for name in ("w", "AL", "SR", "gain")))  # fmt: skip
    note = (
        "Means over categories. Gain: the SR of hybridspec over that of the variant; with its "
        "95% interval (paired, over answers) for the routing correction, which is reported only "
        "where layers correlate as in text."
    )
    title = "What each part of hybridspec gains (the paper's Table 3)"
    return Table(title, header, tuple(rows), note)


def _component(
    document: Document, name: str, paper: tuple[float, float, float, float] | None
) -> tuple[str, ...]:
    m = document["systems"][name]["mean"]
    gain = f"{document['systems'][WHOLE]['mean']['speedup'] / m['speedup']:.2f}"
    if name == "nominal-only":
        known = document["correction"]
        gain = MISSING if known is None else (
            f"{known['value']:.3f} ({known['low']:.3f}-{known['high']:.3f})"
        )  # fmt: skip
    theirs = (f"{paper[0]:g}", *(f"{x:.2f}" for x in paper[1:])) if paper else (MISSING,) * 4
    return (
        ABLATION[name], name, f"{m['mean_w']:.1f}", f"{m['acceptance_length']:.2f}",
        f"{m['speedup']:.2f}", gain, *theirs,
    )  # fmt: skip


def _cell(pair: Cell) -> str:
    return f"{pair[0]:.2f} {pair[1]:.2f}x"
