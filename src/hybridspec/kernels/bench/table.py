"""The tables of a document of the kernels' bench, in Markdown.

    python -m hybridspec.kernels.bench.table benchmarks/h200/kernels.json docs/kernels.md

With a second path, what was wanted and found replaces what stands between that page's two marks.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hybridspec.bench.command import ending
from hybridspec.bench.files import DAMAGE, write_atomically
from hybridspec.bench.parsing import Parser
from hybridspec.bench.small import warned
from hybridspec.errors import RequestError, said_by
from hybridspec.kernels.bench.figure_rows import figure_tables

BEGIN, END = "<!-- kernels.json: begin -->", "<!-- kernels.json: end -->"
HEAD = ("kernel", "tile", "us", "again", "MB", "TB/s", "of copy", "peer, us", "peer / ours")
ROUND = re.compile(r"^round (?P<who>.+): (?P<at>w = \d+, m = \d+)$")
BLOCK = re.compile(r"^(stream )?block, (?P<at>U = \d+)$")
PEERS = (", cuBLAS", ", SDPA")  # stand behind the name of ours


def table(document: dict[str, Any]) -> str:
    """What was wanted and found; then every time, with the best peer's for the same work."""
    timed = [r for r in document["records"] if "us" in r and not is_peer(r)]
    rows = [_row(r, document["records"]) for r in timed]
    return f"{goals(document)}\n\n{_lines(HEAD, rows)}"


def goals(document: dict[str, Any]) -> str:
    """On what it was measured; what was wanted and found."""
    figures = document.get("figures")
    rows = [_lines(head, body) for head, *body in figure_tables(figures or [])]
    return warned(document, "\n\n".join([_about(document), *rows]))


def is_peer(record: dict[str, Any]) -> bool:
    """Whether others' code was timed: cuBLAS, torch's attention, SGLang."""
    name = record["name"]
    return "SGLang" in name or name.endswith(PEERS)


def peer_of(record: dict[str, Any], records: Sequence[dict[str, Any]]) -> float | None:
    """The best time of a peer for the same work, us."""
    name, asked = record["name"], ROUND.match(record["name"])
    names = {name + peer for peer in PEERS}
    if block := BLOCK.match(name):
        names.add(f"SGLang 0.5.16 fused_moe, {block['at']}")

    def same(other: dict[str, Any]) -> bool:
        found = ROUND.match(other["name"]) if asked else None
        if other["name"] in names:
            return True
        return asked is not None and found is not None and found["at"] == asked["at"]

    return min((r["us"] for r in records if "us" in r and is_peer(r) and same(r)), default=None)


def text_of(page: Path) -> str:
    """What a page holds.

    Raises:
        RequestError: it is no text in UTF-8.
        OSError: it cannot be read.
    """
    try:
        return page.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"{page} is no page: it holds no text in UTF-8.") from None


def fill(page: str, text: str, first: str = BEGIN, last: str = END) -> str:
    """The page with the text between its marks.

    Raises:
        RequestError: it has not both marks in their order.
    """
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end:
        raise RequestError(
            f"The page lacks {first} followed by {last}; add both on lines of their own."
        )
    return f"{before}{begin}\n{text}\n{end}{after}"


def _about(document: dict[str, Any]) -> str:
    """On what it was measured, and when a part of it with another source."""
    facts, copied = document["machine"], document["copy_tb_s"]
    about = f"{facts.get('gpu') or facts['cpu']}, torch {facts['torch']}, Triton "
    about += f"{document['triton']}, commit {(document['run']['commit'] or 'unknown')[:9]}"
    if "driver" in facts:
        about += f", driver {facts['driver']}"
    about += f". A copy: {copied} TB/s, read and written." if copied else "."
    here = document.get("code", {}).get("source_sha256")
    older = [n for n, p in document.get("parts", {}).items() if p["source_sha256"] != here]
    if older:
        about += f" Measured with an earlier source: {', '.join(older)}."
    if failed := document.get("failed"):
        about += f" Failed: {', '.join(failed)}."
    return about


def _row(r: dict[str, Any], records: Sequence[dict[str, Any]]) -> list[str]:
    peer = peer_of(r, records)
    size = r.get("bytes")
    known = [
        r.get("us_again"),
        size and round(size / 1e6, 1),
        r.get("tb_s"),
        r.get("of_copy"),
        peer,
    ]
    ratio = f"{peer / r['us']:.2f}" if peer else ""
    return [
        r["name"], str(r.get("config", "")), f"{r['us']}",
        *("" if v is None else str(v) for v in known), ratio,
    ]  # fmt: skip


def _lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(map(_line, (head, ["---"] * len(head), *rows)))


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Print the tables, or write the first of them into a page; 0, or 2 after an error."""
    parser = Parser(
        prog="python -m hybridspec.kernels.bench.table", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("document", metavar="FILE", type=Path, help="of the kernels' bench")
    parser.add_argument("page", metavar="PAGE", type=Path, nargs="?", help="with the two marks")
    given = parser.parse_args()
    return ending(lambda: run(given.document, given.page))


def run(path: Path, page: Path | None) -> int:
    """Print or write; 0.

    Raises:
        RequestError: a file that cannot be read, or a page without marks.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if page is None:
            sys.stdout.write(table(document) + "\n")
        else:
            write_atomically(page, fill(text_of(page), goals(document)))
    except OSError as error:
        raise RequestError(f"{error.filename} cannot be read: {error.strerror}.") from None
    except DAMAGE as error:
        raise RequestError(
            f"{path} is no document of the kernels' bench ({said_by(error)}). Make one with "
            "`hybridspec bench kernels`."
        ) from None
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
