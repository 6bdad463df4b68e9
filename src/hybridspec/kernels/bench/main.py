"""The kernels' bench: checks, then timings; one JSON document, written after every part.

    PYTHONPATH=src python -m hybridspec.kernels.bench --out benchmarks/h200/kernels.json

`hybridspec bench kernels` is the same where typer is installed. A part that fails is reported and
left out, and the run goes on. Without a GPU, `--shape small` runs everything once through Triton's
interpreter (TRITON_INTERPRET=1): its figures mean nothing.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton

from hybridspec.bench.files import write_atomically
from hybridspec.bench.machine import circumstances, code, machine
from hybridspec.kernels.bench.clock import Clock, GraphClock
from hybridspec.kernels.bench.parts import PARTS
from hybridspec.kernels.bench.setting import SHAPES, Setting
from hybridspec.kernels.bench.table import table
from hybridspec.kernels.bench.verb import NAME, parser
from hybridspec.kernels.early import has_early


def main(arguments: list[str] | None = None, prog: str | None = None) -> int:
    """Run the parts asked for. Returns 0 if all ran and all checks held, else 1."""
    given = parser(prog, list(SHAPES)).parse_args(arguments)
    s, failed = setting(given.shape), {}
    s.peers, s.defaults = given.peers, given.defaults
    if s.device.type == "cuda":
        s.copied = copy_bandwidth(s)
    names = given.parts or PARTS
    for sweep in range(given.sweeps):
        s.first = {(r["name"], r.get("config", "")): r for r in s.records} if sweep else {}
        for name in names:
            if name not in failed and not (sweep and name.startswith("check-")):
                run(name, s, failed)
                _write(given.out, document(s, failed))
    bad = [r["name"] for r in s.records if r.get("ok") is False]
    sys.stdout.write("\n" + table(document(s, failed)) + "\n")
    sys.stdout.write(f"checks that do not hold: {', '.join(bad) or 'none'}\n")
    return 1 if failed or bad else 0


def part(name: str) -> Callable[[Setting], None]:
    """The function that PARTS names."""
    module, function = PARTS[name].split(".")
    found: Callable[[Setting], None] = getattr(
        importlib.import_module(f"{__package__}.{module}"), function
    )
    return found


def run(name: str, s: Setting, failed: dict[str, str]) -> None:
    """One part; if it fails, why is kept by its name."""
    start = time.perf_counter()
    try:
        with torch.no_grad():
            part(name)(s)
    except Exception:
        failed[name] = traceback.format_exc()
        sys.stdout.write(f"{name} failed:\n{failed[name]}")
    sys.stdout.write(f"{name}: {time.perf_counter() - start:.1f} s\n")
    sys.stdout.flush()


def setting(shape: str) -> Setting:
    """The GPU in bf16 where there is one, else the interpreter in fp32 (its bf16 products are
    wrong)."""
    if not torch.cuda.is_available():
        return Setting(SHAPES[shape], torch.device("cpu"), torch.float32, Clock(), early=False)
    device = torch.device("cuda", torch.cuda.current_device())
    return Setting(SHAPES[shape], device, torch.bfloat16, GraphClock(), has_early(device))


def copy(a: torch.Tensor, b: torch.Tensor) -> None:
    """b becomes a, by a kernel that reads and writes (a copy in a graph is a slower engine's)."""
    torch.bitwise_not(a, out=b)


def copy_bandwidth(s: Setting) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB."""
    a, b = (torch.empty(1 << 28, dtype=torch.int32, device=s.device) for _ in range(2))
    us = s.clock([lambda: copy(a, b)])
    return 2 * a.nbytes / us * 1e6


def document(s: Setting, failed: dict[str, str]) -> dict[str, Any]:
    """What was found and on what."""
    return {
        "schema": "hybridspec.bench.kernels/1",
        "machine": machine(s.device),
        "code": code(),
        "run": circumstances(),
        "triton": triton.__version__,
        "dtype": str(s.dtype).removeprefix("torch."),
        "shape": asdict(s.shape),
        "copy_tb_s": round(s.copied / 1e12, 3) if s.copied else None,
        "failed": failed,
        "records": s.records,
    }


def _write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path = path if path.suffix == ".json" else path / NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found, indent=1) + "\n")
