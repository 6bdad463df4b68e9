"""The tables of a document of the kernels' bench, in Markdown.

    python -m hybridspec.kernels.bench.table benchmarks/h200/kernels.json docs/kernels.md

With a second path, they replace what stands between that page's two marks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- kernels.json: begin -->", "<!-- kernels.json: end -->"
HEAD = ("kernel", "tile", "us", "again", "MB", "TB/s", "of copy", "peer, us", "peer / ours")
ROUND = re.compile(r"^round (?P<who>.+): (?P<at>w = \d+, m = \d+)$")


def table(document: dict[str, Any]) -> str:
    """Every time, with the best peer's for the same work."""
    timed = [r for r in document["records"] if "us" in r and not is_peer(r)]
    rows = [_row(r, document["records"]) for r in timed]
    facts = document["machine"]
    where = facts.get("gpu") or facts["cpu"]
    copied = document["copy_tb_s"]
    about = f"{where}, torch {facts['torch']}, Triton {document['triton']}, commit "
    about += f"{(document['run']['commit'] or 'unknown')[:9]}"
    if "driver" in facts:
        about += f", driver {facts['driver']}"
    about += f". A copy: {copied} TB/s, read and written." if copied else "."
    return "\n".join([about, "", _line(HEAD), _line(["---"] * len(HEAD)), *map(_line, rows)])


def is_peer(record: dict[str, Any]) -> bool:
    """Whether others' code was timed: cuBLAS, SGLang."""
    return "cuBLAS" in record["name"] or record["name"].startswith("round SGLang")


def peer_of(record: dict[str, Any], records: Sequence[dict[str, Any]]) -> float | None:
    """The best time of a peer for the same work, us."""
    asked = ROUND.match(record["name"])

    def same(other: dict[str, Any]) -> bool:
        if asked is None:
            return bool(other["name"] == f"{record['name']}, cuBLAS")
        found = ROUND.match(other["name"])
        return found is not None and found["at"] == asked["at"]

    return min((r["us"] for r in records if "us" in r and is_peer(r) and same(r)), default=None)


def fill(page: str, text: str) -> str:
    """The page with the text between its marks.

    Raises:
        ValueError: it has not both marks in their order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"The page lacks {BEGIN} followed by {END}; add both on lines of their own."
        )
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


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


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    """Print the tables, or write them into a page."""
    text = table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    if len(sys.argv) < 3:
        sys.stdout.write(text + "\n")
        return 0
    page = Path(sys.argv[2])
    page.write_text(fill(page.read_text(encoding="utf-8"), text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
