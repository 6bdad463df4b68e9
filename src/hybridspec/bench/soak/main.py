"""Start a server, ask it at random for some minutes, and say what became of it."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count, takewhile
from pathlib import Path
from typing import Any

from hybridspec.bench.machine import circumstances, code, machine
from hybridspec.bench.parsing import Parser
from hybridspec.bench.soak.asks import CONTEXT, asks
from hybridspec.bench.soak.load import Load, alone
from hybridspec.bench.soak.report import report, sound
from hybridspec.bench.soak.server import HOST, Figures, Server, serving

# Small, so that all that may grow has grown within a minute: what grows later is a leak. Requests
# far beyond the context are among those asked.
SMALL = ("--prefix-memory", "64", "--max-context", str(CONTEXT))
WARM = 60.0  # seconds, at most a fifth of the run: memory is judged from then on


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if the server kept all that it promises, else 1."""
    asked = _parser().parse_args(arguments)
    with serving([*SMALL, *asked.serve]) as server:
        results = soak(server, minutes=asked.minutes, clients=asked.clients, seed=asked.seed)
        results["exit_code"] = server.stop()
    if asked.out is not None:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(report(results))
    return 0 if sound(results) else 1


def soak(server: Server, *, minutes: float, clients: int, seed: int) -> dict[str, Any]:
    """Ask a server for some minutes.

    Args:
        server: one at rest.
        minutes: how long clients begin new requests.
        clients: at once.
        seed: of what is asked.
    """
    known = alone(HOST, server.port, asks(64, seed))
    load = Load(HOST, server.port, known, seed)
    before, began = server.rest(), time.monotonic()
    end = began + 60 * minutes
    numbers = takewhile(lambda _: time.monotonic() < end, count())
    asking = threading.Thread(target=load.run, args=(clients, numbers))
    asking.start()
    samples = _watch(server, asking, load, began, min(WARM, 12 * minutes))
    after = server.rest()
    return {
        "minutes": (time.monotonic() - began) / 60,
        "clients": clients,
        "seed": seed,
        "counts": dict(load.tally.counts),
        "failed": load.tally.failed,
        "faults": load.tally.faults,
        "before": asdict(before),
        "samples": [asdict(sample) for sample in samples],
        "after": asdict(after),
        "machine": _machine(),
        **code(),
        **circumstances(),
    }


def _watch(
    server: Server, asking: threading.Thread, load: Load, began: float, warm: float
) -> list[Figures]:
    """Figures a few seconds apart, from when it is warm until nobody asks."""
    samples: list[Figures] = []
    said = 0
    while asking.is_alive():
        asking.join(min(5.0, warm / 4))
        figures = server.figures()
        passed = figures.seconds - began
        if passed >= warm:
            samples.append(figures)
        if passed >= 60 * (said + 1):
            said = int(passed // 60)
            sys.stderr.write(_line(passed, load, figures))
    return samples


def _line(passed: float, load: Load, figures: Figures) -> str:
    return (
        f"{passed / 60:.0f} min: {load.tally.requests} requests, {load.tally.failed} faults, "
        f"{figures.memory / 2**20:.0f} MiB, {figures.threads} threads, {figures.files} files, "
        f"{figures.waiting} waiting\n"
    )


def _machine() -> dict[str, Any]:
    import torch

    return machine(torch.device("cpu"))


def _parser() -> argparse.ArgumentParser:
    made = Parser(prog="python -m hybridspec.bench.soak", description=__doc__)
    made.add_argument("--minutes", type=float, default=20.0, help="how long to ask")
    made.add_argument("--clients", type=int, default=16, help="at once")
    made.add_argument("--seed", type=int, default=0, help="of what is asked")
    made.add_argument("--out", type=Path, metavar="FILE", help="write all figures there, as JSON")
    made.add_argument("serve", nargs="*", help="after --: arguments of hybridspec serve")
    return made
