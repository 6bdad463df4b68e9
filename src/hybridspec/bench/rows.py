"""Rows of a file of prompts: JSON lines, parquet, or either of them in a data set on the Hub.

`hub:owner/name`, `hub:owner/name/CONFIG` and `hub:owner/name@REVISION` are data sets that this user
may read; huggingface_hub's variables keep their meaning (HF_TOKEN, HF_HOME, HF_HUB_OFFLINE).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from hybridspec.errors import CheckpointError, RequestError, said_by
from hybridspec.extras import install

MOST_BYTES = 256 << 20  # /dev/zero has no end
HUB = "hub:"
KINDS = (".jsonl", ".parquet")


class Row(NamedTuple):
    """One row: where it stands, for a sentence, and what it holds. `line` is within its file."""

    where: str
    line: str
    value: Any


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a file, in order. Blank lines are skipped.

    Raises:
        RequestError: what cannot be read, or a line that is not JSON.
    """
    if is_hub(path):
        path = _from_hub(str(path).removeprefix(HUB))
    yield from _parquet(path) if path.suffix == ".parquet" else _json_lines(path)


def is_hub(path: Path) -> bool:
    """Whether it names a data set on the Hub rather than a file."""
    return str(path).startswith(HUB) and not path.exists()


def _json_lines(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            yield Row(where, f"line {number}", json.loads(line))
        except (ValueError, RecursionError):  # the latter for thousands of nested brackets
            raise RequestError(f"{where} is not JSON; expected an object a line.") from None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise RequestError(
                f"The prompt file {path} does not end within {MOST_BYTES >> 20} MiB; expected less."
            )
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"The prompt file {path} is not UTF-8 text (byte {error.start}); expected JSONL."
        ) from None
    except OSError as error:
        raise RequestError(f"The prompt file {path} cannot be read: {error.strerror}.") from None


def _parquet(path: Path) -> Iterator[Row]:
    """SPEED-Bench is published as parquet, which needs pyarrow, an extra of its own."""
    try:
        arrow = import_module("pyarrow")
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        raise RequestError(
            f"{path} is a parquet file, and pyarrow is not installed. Install it with "
            f"{install('parquet')}, or write the rows as JSON lines."
        ) from None
    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise RequestError(f"The prompt file {path} cannot be read: {said_by(error)}.") from None
    for number, value in enumerate(rows, 1):
        yield Row(f"{path}, row {number}", f"row {number}", value)


def _from_hub(name: str) -> Path:
    """The one file of a data set that may hold prompts, downloaded if need be."""
    from hybridspec.checkpoint.source import download

    named, _, revision = name.partition("@")
    owner, _, rest = named.partition("/")
    repo, _, config = rest.partition("/")
    wanted = [f"*{kind}" for kind in KINDS]
    try:
        folder = download(f"{owner}/{repo}", revision or None, wanted, "dataset")
    except CheckpointError as error:
        raise RequestError(f"The prompts {HUB}{name} cannot be had. {error}") from None
    files = sorted(p for p in folder.rglob("*") if p.suffix in KINDS)
    names = [p.relative_to(folder).as_posix() for p in files]
    found = [p for p, n in zip(files, names, strict=True) if not config or config in n]
    if len(found) != 1:
        raise RequestError(
            f"The prompts {HUB}{name} are {len(found)} files; expected one. Name a part of its "
            f"path after the data set, such as {HUB}{owner}/{repo}/PART; there are: "
            f"{', '.join(names) or 'none'}."
        )
    return found[0]
