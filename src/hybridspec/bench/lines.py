"""A JSONL file that takes each finished piece of work, so that an interrupted run can go on later.

The first line is the set-up. A run with another set-up is refused, since its answers would not
belong together. A line that was cut off by a kill is dropped; any other damage is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from hybridspec.bench.files import unwritable
from hybridspec.errors import RequestError

T = TypeVar("T")
# What a line of another shape raises: json.loads, or taking apart what it gave.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Lines(Generic[T]):
    """What one file of results holds, and the way to add to it.

    Attributes:
        path: the file.
        setup: what was run on what.
        items: what is done, by its key.
    """

    def __init__(
        self,
        path: Path,
        setup: Mapping[str, Any],
        parse: Callable[[dict[str, Any]], tuple[tuple[str, ...], T]],
        *,
        force: bool = False,
    ) -> None:
        """Open the file, or begin it.

        Args:
            path: the file; its folder exists.
            setup: a JSON object.
            parse: a line's object -> key and item; raises an error of DAMAGE for another shape.
            force: discard what the file holds.

        Raises:
            RequestError: another set-up, damage, or a file that cannot be written.
        """
        self.path, self.setup, self._parse = path, dict(setup), parse
        self.items: dict[tuple[str, ...], T] = {}
        try:
            if force:
                path.unlink(missing_ok=True)
            data = path.read_bytes() if path.exists() else b""
            whole = data.rfind(b"\n") + 1
            if whole < len(data):
                os.truncate(path, whole)
        except OSError as error:
            raise unwritable(path, error) from None
        lines = data[:whole].splitlines()
        if not self._started(lines):
            self._write("w", {"setup": self.setup})
            return
        for number, line in enumerate(lines[1:], 2):
            self._take(line, number)

    def add(self, row: Mapping[str, Any]) -> None:
        """Keep one piece of work, as `parse` will read it."""
        key, item = self._parse(dict(row))
        self._write("a", row)
        self.items[key] = item

    def _started(self, lines: list[bytes]) -> bool:
        """Whether there is work of this set-up. A file without any is nobody's and begun anew."""
        if not lines:
            return False
        try:
            found = json.loads(lines[0])["setup"]
            changes = self._changes(found)
        except DAMAGE:
            raise self._damaged(1) from None
        if changes and len(lines) > 1:
            raise RequestError(
                f"{self.path} holds answers of another set-up: {', '.join(changes)}. Choose "
                "another --out, or discard them with --force."
            )
        return not changes

    def _changes(self, found: Mapping[str, Any]) -> list[str]:
        """What differs between the set-up found and ours, in words."""
        ours = json.loads(json.dumps(self.setup))
        differ = [n for n in {**ours, **found} if ours.get(n) != found.get(n)]
        return [f"{n} {_short(found.get(n))} there, {_short(ours.get(n))} here" for n in differ]

    def _take(self, line: bytes, number: int) -> None:
        try:
            key, item = self._parse(json.loads(line))
        except DAMAGE:
            raise self._damaged(number) from None
        self.items[key] = item

    def _damaged(self, number: int) -> RequestError:
        return RequestError(
            f"{self.path}, line {number}, is damaged; choose another --out, or discard the file "
            "with --force."
        )

    def _write(self, mode: str, row: Mapping[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False) + "\n"
        try:
            # A lone surrogate, possible in a file's name, becomes the escape that JSON has for it.
            with self.path.open(mode, encoding="utf-8", errors="backslashreplace") as file:
                file.write(line)
        except OSError as error:
            raise unwritable(self.path, error) from None


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else text[:12] + "..."
