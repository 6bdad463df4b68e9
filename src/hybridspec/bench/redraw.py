"""Pictures of what is on disk: results of `bench speed`, `bench profile` and `bench scripted`, and
calibrations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hybridspec.bench import plot
from hybridspec.bench.files import (
    CLOCKS,
    CLOCKS_SCHEMA,
    COMPONENTS,
    COMPONENTS_SCHEMA,
    DAMAGE,
    RESULTS,
    SCHEMA,
)
from hybridspec.bench.scripted import verb
from hybridspec.errors import RequestError

CALIBRATION = "hybridspec.profile/"  # its schemas begin so; the reader of profiles knows which
MOST_BYTES = 256 << 20
EXPECTED = (
    f"Expected a folder with {RESULTS} of `hybridspec bench speed`, {COMPONENTS} of `hybridspec "
    f"bench profile`, {verb.NAME} of `hybridspec bench scripted` or {CLOCKS} of the clocks of its "
    "rounds, or the file of a calibration profile."
)


def redraw(path: Path) -> list[Path]:
    """Draw all that `path` holds, beside it. Returns and raises as `plot.draw`.

    Args:
        path: a folder that `bench speed`, `bench profile` or `bench scripted` filled, a file of
            theirs, or a calibration profile.

    Raises:
        RequestError: none of these. ProfileError: a calibration profile that is damaged.
    """
    plot.check_matplotlib()
    drawn = [picture for file in _files(path) for picture in _draw(file)]
    if not drawn:
        raise _foreign(path, "it has no measurements")
    return drawn


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    names = (RESULTS, COMPONENTS, verb.NAME, CLOCKS)
    found = [path / name for name in names if (path / name).is_file()]
    if not found:
        what = "holds no finished results that can be drawn (verify and quality have no pictures)"
        raise RequestError(
            f"{path} {what if path.is_dir() else 'is no folder and no file'}. {EXPECTED}"
        )
    return found


def _draw(path: Path) -> list[Path]:
    document = _read(path)
    schema = document.get("schema")
    if isinstance(schema, str) and schema.startswith(CALIBRATION):
        return _draw_calibration(path)
    known = {
        SCHEMA: plot.draw, COMPONENTS_SCHEMA: plot.draw_components, CLOCKS_SCHEMA: plot.draw_round,
        verb.SCHEMA: plot.draw_scripted,
    }  # fmt: skip
    draw = known.get(str(schema))
    if draw is None:
        raise _foreign(path, f"its schema is {str(schema)[:80]!r}")
    try:
        return draw(document, path.parent)
    except DAMAGE as error:
        raise _foreign(path, f"{type(error).__name__}: {error}") from None


def _draw_calibration(path: Path) -> list[Path]:
    from hybridspec.policy.profile import load_profile

    profile = load_profile(path)
    try:
        return plot.draw_calibration(profile, path.with_suffix(""))
    except DAMAGE as error:
        raise _foreign(path, f"{type(error).__name__}: {error}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
        document = json.loads(text)
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}. {EXPECTED}") from None
    except DAMAGE:
        raise _foreign(path, "no JSON") from None
    if not isinstance(document, dict):
        raise _foreign(path, "no JSON object")
    return document


def _foreign(path: Path, why: str) -> RequestError:
    return RequestError(f"{path} does not hold what can be drawn ({why}). {EXPECTED}")
