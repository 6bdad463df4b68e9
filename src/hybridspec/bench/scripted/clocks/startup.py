"""From a process's start to its first tokens: seconds and bytes, compiled before and not.

Triton and, from version 13 on, NVRTC keep what they compile in folders.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import triton  # type: ignore[import-untyped]

from hybridspec.bench.files import CLOCKS
from hybridspec.bench.scripted.clocks.board import WARM, Board
from hybridspec.bench.scripted.device import DeviceExecutor
from hybridspec.errors import HybridSpecError

MOST_SECONDS = 540.0  # for everything to be compiled


def start_up(board: Board) -> dict[str, Any]:
    """The first answers of every system under every launcher, one after the other.

    `ready_s`: seconds from the process's start to the end of the first launcher's first answers,
    without weights (a checkpoint's take another time) and calibration.
    """
    fresh, compiled, before = not board.is_built, _compiled(), board.used()
    board.pair  # noqa: B018
    rows, ready = [], board.took["process"]
    for launcher in board.given.launchers:
        for name in board.plan.systems:
            rows.append(_first(board, launcher, name))
        if launcher == board.given.launchers[0]:
            made = (board.took[f"{launcher}: {what}"] for what in ("executor", "prompt"))
            ready += sum(made) + sum(row["first_s"] for row in rows)
    return {
        "fresh": fresh, "tokens": WARM, "ready_s": round(ready, 3),
        "compiled": _compiled() - compiled, "bytes_before": before, "bytes": board.used(),
        "took": dict(board.took), "rows": rows,
    }  # fmt: skip


def cold(board: Board) -> dict[str, Any]:
    """The same in a process of its own that finds nothing compiled.

    Raises:
        HybridSpecError: the weights are in this process's memory, or that one fails.
    """
    if board.is_built:
        raise HybridSpecError(
            "A second process with the weights does not fit beside this one's; run the part `cold` "
            "first or alone."
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / CLOCKS
        caches = {"TRITON_CACHE_DIR": f"{folder}/triton", "CUDA_CACHE_PATH": f"{folder}/cuda"}
        _run([*_command(board), "--out", str(out)], os.environ | caches)
        found = json.loads(out.read_text(encoding="utf-8"))
    return {"startup": found["parts"]["startup"]}


def _first(board: Board, launcher: str, name: str) -> dict[str, Any]:
    """Its first answer and its second."""
    board.system(name)  # a calibration, perhaps
    answers, before = board.answers(launcher), board.used()
    seconds = []
    for _ in range(2):
        began = time.perf_counter()
        board.say(answers, name, WARM)
        seconds.append(time.perf_counter() - began)
    executor = answers.executor
    figures = executor.figures.get(name) if isinstance(executor, DeviceExecutor) else None
    return {
        "launcher": launcher, "system": name, "first_s": seconds[0], "again_s": seconds[1],
        "bytes": board.used() - before, "figures": figures and asdict(figures),
    }  # fmt: skip


def _command(board: Board) -> list[str]:
    given, plan = board.given, board.plan
    return [
        sys.executable, "-m", __package__, "--parts", "startup", *["--small"] * given.small,
        "--launchers", ",".join(given.launchers), "--launcher", given.launcher, "--systems",
        ",".join(plan.systems), "--context", str(plan.context), "--seed", str(given.seed),
        "--traces", str(given.traces),
    ]  # fmt: skip


def _run(command: list[str], environment: dict[str, str]) -> None:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False,
            timeout=MOST_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HybridSpecError(
            f"A process that finds nothing compiled was not ready after {MOST_SECONDS:.0f} s."
        ) from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise HybridSpecError(f"A process of its own ended with {done.returncode}: {said}.")


def _compiled() -> int:
    """Entries of the folder in which Triton keeps what it has compiled."""
    folder = Path(triton.knobs.cache.dir)
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else 0
