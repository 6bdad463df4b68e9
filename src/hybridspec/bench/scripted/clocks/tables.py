"""What the clocks print, a table a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hybridspec.bench.component_fits import COMPONENTS, typical
from hybridspec.bench.component_report import NAMES
from hybridspec.bench.scripted.paper import TABLE_4
from hybridspec.bench.tables import MISSING, Table, number, plain

MIB = 2**20
Part = Mapping[str, Any]


def tables(parts: Mapping[str, Part]) -> str:
    """Of all parts that are there, in the order of their names here."""
    made = [TABLES[name](parts[name]) for name in TABLES if name in parts]
    return "\n\n".join(map(plain, made)) + "\n" if made else ""


def launchers(part: Part) -> Table:
    """Milliseconds a round by launcher."""
    first = part["rows"][0]["launcher"]
    return _rounds(f"Launchers, x {first}", part["rows"])


def verifiers(part: Part) -> Table:
    """Milliseconds a round by verifier."""
    return _rounds("GDN verifiers, x exact", part["rows"])


def _rounds(title: str, rows: Sequence[Part]) -> Table:
    header = ("system", "launcher", "w", "ms a round", "least-greatest", "ratio", "least-greatest")
    note = "Median of answers in turn; the ratio is to the first of its group in the same turn."
    return Table(
        f"{title}: {rows[0]['answers']} answers each", header, tuple(map(_cells, rows)), note
    )


def _cells(row: Part) -> tuple[str, ...]:
    ms, ratio = row["ms"], row["ratio"]
    return (
        row["system"], row["launcher"], f"{row['mean_w']:.2f}", f"{ms['median']:.3f}",
        f"{ms['low']:.3f}-{ms['high']:.3f}", f"{ratio['median']:.3f}",
        f"{ratio['low']:.3f}-{ratio['high']:.3f}",
    )  # fmt: skip


def gaps(part: Part) -> Table:
    """Idle time between rounds."""
    header = (
        "system", "launcher", "gap us", "95%", "most", "round us", "share", "idle", "ms a round",
        "with stamps",
    )  # fmt: skip
    rows = tuple(
        (
            row["system"], row["launcher"], f"{row['gap_us']:.2f}", f"{row['gap_us_95']:.2f}",
            f"{row['gap_us_most']:.1f}", f"{row['round_us']:.0f}", f"{row['share']:.2%}",
            f"{row['idle']:.2%}", f"{row['ms']:.3f}", f"{row['ms_stamped']:.3f}",
        )
        for row in part["rows"]
    )  # fmt: skip
    note = (
        "gap: a round's last kernel to the next one's first, by the card's clock (ticks of "
        f"{part['tick_ns']} ns); a stamp kernel, whose end is in it, takes {part['stamp_us']:.2f} "
        "us.\nshare: of all time, gaps. idle: of all time, what no recording of the round runs in; "
        "small torch kernels of rounds led by the host count for it."
    )
    return Table("Gaps between rounds", header, rows, note)


def start_up(part: Part) -> Table:
    """What comes before the first token, by launcher and system."""
    header = (
        "system", "launcher", "first s", "again s", "kernels", "capture ms", "instantiate ms",
        "graph MiB", "device MiB",
    )  # fmt: skip
    rows = tuple(_started(row) for row in part["rows"])
    took = ", ".join(f"{name} {seconds:.1f}" for name, seconds in part["took"].items())
    note = (
        f"first, again: answers of {part['tokens']} tokens; the first compiles and records. graph: "
        "of the driver for it; device: all that the first answer took.\n"
        f"Seconds of what was made once: {took}. Kernels that Triton compiled: "
        f"{part['compiled']}.\nThe later launchers find kernels that the first one loaded: for one "
        "alone, --launchers NAME."
    )
    return Table(f"Starting, {part['ready_s']:.1f} s without weights", header, rows, note)


def _started(row: Part) -> tuple[str, ...]:
    figures = row["figures"] or {}
    graph = figures.get("memory")
    return (
        row["system"], row["launcher"], f"{row['first_s']:.2f}", f"{row['again_s']:.3f}",
        number(figures.get("kernels"), "d"), number(figures.get("capture_ms"), ".0f"),
        number(figures.get("instantiate_ms"), ".0f"), number(graph and graph / MIB, ".1f"),
        f"{row['bytes'] / MIB:.1f}",
    )  # fmt: skip


def cold(part: Part) -> Table:
    """Likewise, in a process that found nothing compiled."""
    made = start_up(part["startup"])
    return replace(made, title=f"Nothing compiled before: {made.title}")


def components(part: Part) -> Table:
    """What a round is spent on, the paper's Table 4 beside."""
    rows = part["rows"]
    header = ("part", *(f"w = {row['w']}" for row in rows), "a + b w", "growth")
    parts = [_part_cells(name, part) for name in rows[0]["parts_ms"]]
    whole = ("round", *(f"{row['round_ms']['median']:.3f}" for row in rows), MISSING, MISSING)
    distinct = ("U", *(f"{row['distinct']:.1f}" for row in rows), MISSING, MISSING)
    note = (
        "ms, medians over inputs; seams: what the parts leave of a round, embedding and norms "
        "among it; the choice of a length is not in it. a + b w: over lengths from 2; growth: from "
        "the first length to the last.\n" + "\n".join(_beside(part))
    )
    return Table("A round by component", header, (*parts, whole, distinct), note)


def _part_cells(name: str, part: Part) -> tuple[str, ...]:
    line = part["lines"][name]
    each = [f"{row['parts_ms'][name]['median']:.3f}" for row in part["rows"]]
    return name, *each, f"{line['a']:.3f} {line['b']:+.4f}", _share(line["growth"])


def _beside(part: Part) -> Iterator[str]:
    """The paper's components, ours and its own (A100, SGLang): ms, and from w = 4 to 16."""
    ours = {row["w"]: row for row in part["paper_rows"]}
    for w in sorted(TABLE_4.keys() & ours.keys()):
        row = ours[w]
        mine = [typical(row, name) for name in ("target", *COMPONENTS)]
        said = ", ".join(
            f"{NAMES[name]} {a:.2f} ({b:.2f})"
            for name, a, b in zip(("target", *COMPONENTS), mine, TABLE_4[w], strict=True)
        )
        yield f"w = {w}, in brackets the paper's Table 4: {said}."
    grown = part["paper_growth"]
    if grown is not None:
        shares = (f"{NAMES[n]} {_share(grown[n])}" for n in ("target", *COMPONENTS))
        yield f"From w = {grown['from']} to {grown['to']}: {', '.join(shares)}."


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{round(100 * value):+d}%"


TABLES: dict[str, Callable[[Part], Table]] = {
    "cold": cold, "startup": start_up, "launchers": launchers, "verifiers": verifiers,
    "gaps": gaps, "components": components,
}  # fmt: skip
