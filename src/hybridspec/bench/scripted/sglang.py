"""SGLang's own engine on the same shape, as `bench_sglang.py` starts and times it.

Its weights are random, so its drafts are never right: of such a run only the time of a round
counts, and how many distinct experts a round reads. Both depend on nothing that is scripted.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from hybridspec.errors import OptionError

MODES = {"ar": 1, "dflash4": 4, "dflash8": 8, "dflash16": 16}  # inputs of a round
DRIVER = "bench_sglang.py"
PATCHES = {
    "dummy_patch.py": ("sglang/srt/model_loader/weight_utils.py", "# independent dummy weights"),
    "count_experts_patch.py": ("sglang/srt/layers/moe/topk.py", "# count distinct experts"),
}
STARTED = re.compile(r"^\S+ startup s (?P<seconds>[\d.]+)", re.MULTILINE)


def check(site: Path, peers: Path, modes: tuple[str, ...], count: bool) -> None:
    """Refuse what cannot run before hours are spent.

    Raises:
        OptionError: an unknown mode, or a folder that is not what it should be.
    """
    for mode in modes:
        if mode not in MODES:
            raise OptionError(
                "sglang_modes", f"names {mode!r}; expected some of {', '.join(MODES)}."
            )
    if not (peers / DRIVER).is_file():
        raise OptionError("peers", f"is {peers}, which holds no {DRIVER}; name the folder with it.")
    for patch in ("dummy_patch.py", *(["count_experts_patch.py"] if count else [])):
        file, mark = PATCHES[patch]
        path = site / file
        if not path.is_file():
            raise OptionError("sglang", f"is {site}, which lacks {file}; unpack SGLang there.")
        if mark not in path.read_text(encoding="utf-8", errors="replace"):
            raise OptionError(
                "sglang", f"is {site}, which is not patched; run `{patch} {site}` once."
            )


def command(peers: Path, mode: str) -> list[str]:
    """That starts a mode."""
    return [sys.executable, str((peers / DRIVER).resolve()), mode]


def environment(site: Path, skew: float, counts: Path | None = None) -> dict[str, str]:
    """In place of our own. skew: of router rows; counts: the file for distinct experts."""
    made = {
        "PYTHONPATH": str(site.resolve()), "HF_HUB_OFFLINE": "1",
        "SGLANG_SKIP_SGL_KERNEL_VERSION_CHECK": "1", "ROUTING_SKEW": str(skew),
    }  # fmt: skip
    return made if counts is None else made | {"COUNT_EXPERTS": str(counts.resolve())}


def timed(said: str) -> dict[str, Any] | None:
    """What a mode has measured, from all that it said; None without a single repeat.

    ms_per_round is the median of the repeats.
    """
    repeats = [row for line in said.splitlines() if (row := _repeat(line)) is not None]
    if not repeats:
        return None
    started = STARTED.search(said)
    return {
        "startup_s": float(started["seconds"]) if started else None,
        "ms_per_round": median(row["ms_per_round"] for row in repeats), "repeats": repeats,
    }  # fmt: skip


def counted(counts: Path, mode: str) -> dict[str, Any] | None:
    """U at a mode's length, and over how many layers' passes; None if it was not counted."""
    try:
        found: Mapping[str, Any] = json.loads(counts.read_text(encoding="utf-8"))
        distinct, passes = found[str(MODES[mode])]
        return {"distinct": float(distinct), "passes": int(passes)}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _repeat(line: str) -> dict[str, Any] | None:
    """A line of JSON with a time."""
    try:
        row = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return None
    ours = isinstance(row, dict) and isinstance(row.get("ms_per_round"), int | float)
    return row if ours else None
