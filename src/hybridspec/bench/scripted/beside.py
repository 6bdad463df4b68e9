"""Ours, SGLang, ours again: processes in turn on one GPU, and one document of all of them.

    python -m hybridspec.bench.scripted --sglang SITE --peers DIR --out benchmarks/local

Our second run takes fewer systems and categories: it is there to show drift.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from hybridspec.bench.files import made, write_atomically
from hybridspec.bench.scripted import against, sglang
from hybridspec.bench.scripted.steps import Result, Steps, say
from hybridspec.bench.small import warned
from hybridspec.cli.output import note
from hybridspec.errors import HybridSpecError, OptionError

OPTIONS = ("sglang", "peers", "sglang_modes", "sglang_count", "sglang_skew", "step_seconds",
           "resume")  # fmt: skip
AGAIN_SYSTEMS, AGAIN_CATEGORIES = ("ar", "dflash", "hybridspec"), 2
AGAIN = ("machine", "code", "run", "facts", "systems")  # of its document, what is kept
SKEWS = {"skewed": 1.0, "uniform": 0.0}  # of SGLang's router rows
FIRST, SECOND = "ours", "ours-again"
OURS = (sys.executable, "-m", "hybridspec.bench.scripted")


def run(given: argparse.Namespace, name: str) -> int:
    """All steps; 0, 1 if one of them failed, 130 if it was interrupted.

    Args:
        given: as `verb.parser` has parsed it, with `sglang`.
        name: of the document in a folder.

    Raises:
        HybridSpecError: options that cannot be used, or our own first run fails.
    """
    if given.peers is None:
        raise OptionError("peers", f"is not given; --sglang needs the folder of {sglang.DRIVER}.")
    sglang.check(given.sglang, given.peers, given.sglang_modes, given.sglang_count)
    if given.resume and given.out is None:
        raise OptionError("resume", "needs --out: the results of steps lie beside its file.")
    with ExitStack() as stack:
        if given.out is None:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / name
        else:
            path = given.out if given.out.suffix == ".json" else given.out / name
        steps = Steps(_folder(path), given.step_seconds, given.resume)
        try:
            document = _document(given, steps)
        except KeyboardInterrupt:
            note(f"Interrupted. Finished steps are in {steps.folder}; --resume goes on from there.")
            return 130
        write_atomically(path, json.dumps(document, indent=1) + "\n")
        say(f"\n{warned(document, against.report(document))}\n")
        if given.out is not None:
            say(f"Wrote {path}\n")
    return 1 if steps.failed else 0


def _folder(path: Path) -> Path:
    """For the steps of a document, beside it.

    Raises:
        HybridSpecError: it cannot be made.
    """
    return made(path.with_name(f"{path.stem}.steps"))


def _document(given: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Of our first run, with what the others add.

    Raises:
        HybridSpecError: our first run has failed, so there is nothing to compare.
    """
    first = _ours(given, steps, FIRST)
    if first is None:
        raise HybridSpecError(
            f"{steps.failed[FIRST]}. Nothing was compared; --resume keeps the steps that are done."
        )
    peer = _sglang(given, steps)
    kept = tuple(name for name in given.systems if name in AGAIN_SYSTEMS)
    categories = given.categories[:AGAIN_CATEGORIES]
    second = _ours(given, steps, SECOND, systems=kept or ("ar",), categories=categories)
    again = None if second is None else {key: second[key] for key in AGAIN}
    body = first | {"sglang": peer, "again": again, "steps": steps.took, "failed": steps.failed}
    return body | {"against": against.figures(body)}


def _sglang(given: argparse.Namespace, steps: Steps) -> dict[str, Any]:
    """Every mode timed, and counted in a run of its own if asked for."""
    skew = SKEWS[given.routing] if given.sglang_skew is None else given.sglang_skew
    modes: dict[str, Result] = {}
    for mode in given.sglang_modes:
        command, name = sglang.command(given.peers, mode), f"sglang-{mode}"
        where = sglang.environment(given.sglang, skew)
        timed = steps.run(name, command, sglang.timed, environment=where)
        if timed is not None:
            modes[mode] = timed
    for mode in [m for m in modes if given.sglang_count and m != "ar"]:
        counts = steps.folder / f"{mode}.experts.json"
        counts.unlink(missing_ok=True)
        where = sglang.environment(given.sglang, skew, counts)
        command, name = sglang.command(given.peers, mode), f"sglang-{mode}-experts"
        read = partial(_counted, counts, mode)
        modes[mode] |= steps.run(name, command, read, environment=where) or {}
    return {"routing_skew": skew, "modes": modes}


def _counted(counts: Path, mode: str, said: str) -> Result | None:
    return sglang.counted(counts, mode)


def _ours(given: argparse.Namespace, steps: Steps, name: str, **changed: Any) -> Result | None:
    """A run of ours; its document."""
    out = steps.folder / f"{name}.json"
    out.unlink(missing_ok=True)
    values = {k: v for k, v in vars(given).items() if k not in OPTIONS} | changed | {"out": out}
    return steps.run(name, [*OURS, *flags(values)], _read(out), echo=True)


def _read(out: Path) -> Callable[[str], Result | None]:
    def read(said: str) -> Result | None:
        try:
            return dict(json.loads(out.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    return read


def flags(values: dict[str, Any]) -> list[str]:
    """Options as a command line has them."""
    made = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            made.append(flag)
        elif value is not None and value is not False:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            made.append(f"{flag}={text}")
    return made
