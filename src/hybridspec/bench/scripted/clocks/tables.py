"""What the clocks print, a table a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridspec.bench.tables import Table, plain

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


TABLES: dict[str, Callable[[Part], Table]] = {
    "launchers": launchers, "verifiers": verifiers, "gaps": gaps,
}  # fmt: skip
