"""The clocks: every part that is asked for, then the tables of all that is known."""

from __future__ import annotations

import argparse
import gc
import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from hybridspec.bench.files import CLOCKS
from hybridspec.bench.scripted.clocks.board import Board
from hybridspec.bench.scripted.clocks.document import Document
from hybridspec.bench.scripted.clocks.parts import PARTS
from hybridspec.bench.scripted.clocks.tables import tables
from hybridspec.bench.small import warned

Part = Callable[[Board], dict[str, Any]]


@torch.no_grad()
def run(given: argparse.Namespace) -> int:
    """0, or 1 where a part did not run.

    Raises:
        RequestError: --resume and a document that this run cannot go on with.
    """
    began = time.monotonic()
    board = Board.of(given)
    done = Document(board, path_of(given.out))
    if given.resume:
        done.resume()
    wanted = [name for name in given.parts if name not in done.parts]
    for i, name in enumerate(wanted):
        if given.seconds is not None and time.monotonic() - began > given.seconds:
            done.left_out = wanted[i:]
            break
        _say(f"[{i + 1} of {len(wanted)}] {name}")
        attempt(name, done)
    done.write()
    _say("\n" + warned(done.about, tables(done.parts)))
    if done.left_out:
        _say(f"Left out, for time was up: {', '.join(done.left_out)}. --resume goes on with them.")
    return 1 if done.failed or done.left_out else 0


def attempt(name: str, done: Document) -> None:
    """One part; one that fails is reported, and the others go on."""
    start = time.perf_counter()
    try:
        found = part(name)(done.board)
    except Exception as error:
        _say(f"{done.fail(name, error)} The others go on.")
    else:
        done.keep(name, found, time.perf_counter() - start)
    _say(f"{name}: {time.perf_counter() - start:.1f} s")
    gc.collect()


def part(name: str) -> Part:
    """The function that PARTS names."""
    module, function = PARTS[name].split(".")
    found: Part = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return found


def path_of(out: Path | None) -> Path | None:
    """The document of an `--out`, a folder or a file."""
    return out if out is None or out.suffix == ".json" else out / CLOCKS


def _say(sentence: str) -> None:
    sys.stdout.write(sentence + "\n")
    sys.stdout.flush()
