"""The pictures of a finished bench, from its DIR/speed.json alone: no torch, no checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hybridspec.bench import plot
from hybridspec.bench.files import RESULTS, SCHEMA
from hybridspec.errors import RequestError

# What a document that is not quite ours raises: reading it, or looking for what it lacks.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


def redraw(folder: Path) -> list[Path]:
    """Draw what `folder`/speed.json holds into `folder`. Returns and raises as `plot.draw`.

    Raises:
        RequestError: no such file, or not the results of a bench.
    """
    plot.check_matplotlib()
    path = folder / RESULTS
    results = _read(path)
    try:
        return plot.draw(results, folder)
    except DAMAGE as error:
        raise _foreign(path, f"{type(error).__name__}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        results = json.loads(path.read_bytes())
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read: {error.strerror}. Expected a folder that `hybridspec bench "
            "speed --out` has filled."
        ) from None
    except DAMAGE:
        raise _foreign(path, "no JSON") from None
    found = results.get("schema") if isinstance(results, dict) else None
    if found != SCHEMA:
        raise _foreign(path, f"its schema is {found!r}, not {SCHEMA!r}")
    return dict(results)


def _foreign(path: Path, why: str) -> RequestError:
    return RequestError(
        f"{path} does not hold the results of a speed bench ({why}). Measure anew with another "
        "--out."
    )
