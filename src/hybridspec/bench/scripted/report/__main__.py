"""Tables of scripted runs: printed, or written into a page.

    python -m hybridspec.bench.scripted.report benchmarks/h200 --out benchmarks/h200/README.md

A folder's documents are scripted.json, then scripted-*.json, which are compared with it or, where
acceptance or routing is another, have a table of their own. Of a page that has the two marks, what
stands between them is replaced; with one of them it is refused, with none written anew.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hybridspec.bench.command import ending
from hybridspec.bench.files import DAMAGE, write_atomically
from hybridspec.bench.parsing import Parser
from hybridspec.bench.scripted.report.document import report
from hybridspec.bench.scripted.report.files import BEGIN, END, read
from hybridspec.cli.output import write
from hybridspec.errors import RequestError
from hybridspec.kernels.bench.table import fill, text_of


def run(given: argparse.Namespace) -> int:
    """Print or write; 0.

    Raises:
        RequestError: documents or a page that cannot be read.
    """
    measured = read(given.paths)
    try:
        text = report(measured)
    except DAMAGE as error:
        raise RequestError(
            f"{given.paths[0]} or a document beside it lacks what the tables are made of "
            f"({type(error).__name__}: {error}). Run the bench anew."
        ) from None
    if given.out is None:
        write(text + "\n")
        return 0
    page = text_of(given.out) if given.out.is_file() else ""
    marked = BEGIN in page or END in page  # one alone is refused, or its page would be lost
    write_atomically(given.out, fill(page, text, BEGIN, END) if marked else text + "\n")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """The command; 0, or 2 after an error."""
    parser = Parser(
        prog="python -m hybridspec.bench.scripted.report", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("paths", metavar="PATH", type=Path, nargs="+", help="files, or a folder")
    parser.add_argument("--out", metavar="FILE", type=Path, help="a page, in place of printing")
    given = parser.parse_args(arguments)
    return ending(lambda: run(given))


if __name__ == "__main__":
    raise SystemExit(main())
