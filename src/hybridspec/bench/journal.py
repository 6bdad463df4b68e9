"""DIR/speed.records.jsonl: every generation once it is measured, so that a run can go on later.

It stays when the run is complete: the figures of DIR/speed.json are made from it, and more repeats
are added to it.

The first line is the set-up. A run with another set-up is refused, since its figures would not
belong together. A line that was cut off by a kill is dropped; any other damage is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hybridspec.bench.files import MARKDOWN, RESULTS, unwritable
from hybridspec.bench.records import Key, Record
from hybridspec.errors import RequestError

RECORDS = "speed.records.jsonl"
# What a line of another shape raises: json.loads, or taking apart what it gave.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Journal:
    """What one folder of results holds, and the way to add to it.

    Attributes:
        path: the file.
        setup: what was measured on what; see `setup.py`.
        runs: date and circumstances of every run that added something.
        startup: figures of process start, None if not measured.
        records: generations by key.
    """

    def __init__(self, out: Path, setup: Mapping[str, Any], *, force: bool = False) -> None:
        """Open the journal in `out`, or begin it.

        Raises:
            RequestError: another set-up, damage, or a folder that cannot be written.
        """
        self.path, self.setup = out / RECORDS, dict(setup)
        self.runs: list[dict[str, Any]] = []
        self.startup: dict[str, Any] | None = None
        self.records: dict[Key, Record] = {}
        try:
            out.mkdir(parents=True, exist_ok=True)
            if force:
                for name in (RECORDS, RESULTS, MARKDOWN):  # figures never outlive their records
                    (out / name).unlink(missing_ok=True)
            if self.path.exists() and self.path.stat().st_size:
                self._read()
            if not self.path.exists() or not self.path.stat().st_size:
                self._append("setup", self.setup)
        except OSError as error:
            raise unwritable(self.path, error) from None

    def add(self, record: Record) -> None:
        """Keep one generation."""
        self.records[record.key] = record
        self._append("record", record.to_json())

    def add_run(self, facts: Mapping[str, Any]) -> None:
        """Keep the circumstances of a run that is about to measure."""
        self.runs.append(dict(facts))
        self._append("run", facts)

    def add_startup(self, facts: Mapping[str, Any]) -> None:
        """Keep the figures of process start."""
        self.startup = dict(facts)
        self._append("startup", facts)

    def _append(self, kind: str, body: Mapping[str, Any]) -> None:
        line = json.dumps({"kind": kind, **body}, ensure_ascii=False) + "\n"
        try:
            # A lone surrogate, possible in a file's name, becomes the escape that JSON has for it.
            with self.path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
        except OSError as error:
            raise unwritable(self.path, error) from None

    def _read(self) -> None:
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        lines = data[:whole].splitlines()
        if not _holds(data, "record") and self._is_foreign(lines):
            whole, lines = 0, []  # it was refused before it measured anything: nothing to mix with
        if whole < len(data):
            os.truncate(self.path, whole)
        for number, line in enumerate(lines, 1):
            try:
                self._take(json.loads(line), first=number == 1)
            except DAMAGE:
                raise RequestError(
                    f"{self.path}, line {number}, is damaged; choose another --out, or discard the "
                    "file with --force."
                ) from None

    def _take(self, row: dict[str, Any], *, first: bool) -> None:
        kind = row.pop("kind")
        if first != (kind == "setup"):
            raise ValueError(kind)
        if first:
            self._compare(row)
        elif kind == "run":
            self.runs.append(row)
        elif kind == "startup":
            self.startup = row
        elif kind == "record":
            record = Record.from_json(row)
            self.records[record.key] = record
        else:
            raise ValueError(kind)

    def _is_foreign(self, lines: list[bytes]) -> bool:
        """Whether the first line is the set-up of something else."""
        try:
            row = json.loads(lines[0])
            return row.pop("kind") == "setup" and bool(self._changes(row))
        except (*DAMAGE, IndexError):
            return False

    def _changes(self, found: Mapping[str, Any]) -> list[str]:
        """What differs between the set-up found and ours, in words."""
        ours = json.loads(json.dumps(self.setup))
        names = [n for n in {**ours, **found} if ours.get(n) != found.get(n)]
        return [f"{n} {_show(found.get(n))} there, {_show(ours.get(n))} here" for n in names]

    def _compare(self, found: Mapping[str, Any]) -> None:
        changes = ", ".join(self._changes(found))
        if changes:
            threads = found.get("threads")
            same = self.setup.get("threads") == threads
            raise RequestError(
                f"{self.path.parent} holds results of another set-up: {changes}. "
                + ("" if same else f"For the threads there give --threads {threads}. ")
                + "Choose another --out, or discard them with --force."
            )


def holds_startup(out: Path) -> bool:
    """Whether the journal in `out` has figures of process start, of whatever set-up."""
    try:
        return _holds((out / RECORDS).read_bytes(), "startup")
    except OSError:
        return False


def _holds(data: bytes, kind: str) -> bool:
    return f'\n{{"kind": "{kind}"'.encode() in data


def _show(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:12] + "..."
