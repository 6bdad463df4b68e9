"""Files of measurements: a JSON array a line, each kept as soon as it is measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hybridspec.calibration.trace import CalibrationError

Row = tuple[float, ...]


def read_rows(path: Path, columns: int) -> list[Row]:
    """The rows of a file, each of so many numbers; none where there is no file.

    A line that an interruption cut is taken out of the file.

    Raises:
        CalibrationError: the file cannot be read or mended.
    """
    rows, kept = [], []
    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.splitlines():
            row = _row(line, columns)
            if row is not None:
                rows.append(row)
                kept.append(line + "\n")
        if "".join(kept) != text:
            path.write_text("".join(kept), encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from None
    return rows


def _row(line: str, columns: int) -> Row | None:
    try:
        values = json.loads(line)
        row = tuple(float(v) for v in values)
    except (ValueError, TypeError, RecursionError):
        return None
    return row if len(row) == columns else None


def add_row(path: Path, row: Sequence[float]) -> None:
    """Append one row.

    Raises:
        CalibrationError: the file cannot be written.
    """
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(list(row)) + "\n")
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> CalibrationError:
    """The sentence about a file of a calibration that cannot be used."""
    return CalibrationError(
        f"{path} cannot be written: {error.strerror}. What was measured before it is kept; make "
        "room there and run the same command again."
    )
