"""The tables of a bench in Markdown, with what they were measured on: to be pasted, not typed."""

from __future__ import annotations

from typing import Any

from hybridspec.bench.tables import Table, tables


def markdown(results: dict[str, Any]) -> str:
    """A document of every table, a heading each, after the report's lines on the machine."""
    from hybridspec.bench.report import about

    parts = ["  \n".join(map(_plain, about(results))), *map(table, tables(results, wide=True))]
    return "\n\n".join(parts) + "\n"


def table(found: Table) -> str:
    """One table with its title above and its note below."""
    aligned = ["---", *["---:"] * (len(found.header) - 1)]
    lines = [_row(found.header), _row(aligned), *map(_row, found.rows)]
    note = f"\n\n{_plain(found.note)}" if found.note else ""
    return f"### {_plain(found.title)}\n\n" + "\n".join(lines) + note


def _row(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(map(_plain, cells))} |"


def _plain(text: str) -> str:
    """Names come from files: nothing in them is to be read as Markdown or as HTML."""
    for mark in "\\`*_|<[":
        text = text.replace(mark, "\\" + mark)
    return text
