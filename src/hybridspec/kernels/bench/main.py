"""The kernels' bench: checks, then timings; one JSON document, written after every part.

    PYTHONPATH=src python -m hybridspec.kernels.bench --out benchmarks/h200/kernels.json

A part that fails is reported and left out, and the run goes on. Without a GPU, `--shape small` runs
everything once through Triton's interpreter (TRITON_INTERPRET=1): its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton

from hybridspec.bench.files import write_atomically
from hybridspec.kernels.bench import checks, products
from hybridspec.kernels.bench.chain import time_chain
from hybridspec.kernels.bench.clock import Clock, GraphClock
from hybridspec.kernels.bench.gdn import time_gdn
from hybridspec.kernels.bench.moe import time_experts
from hybridspec.kernels.bench.setting import SHAPES, Setting

PARTS: dict[str, Callable[[Setting], None]] = {
    "check-products": checks.check_products,
    "check-experts": checks.check_experts,
    "check-gdn": checks.check_gdn,
    "gdn": time_gdn,
    "out": products.time_out,
    "router": products.time_router,
    "experts": time_experts,
    "joint": products.time_joint,
    "chain": time_chain,
    "head": products.time_head,
    "norms": products.time_norms,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts asked for. Returns 0 if all ran and all checks held, else 1."""
    given = _parser().parse_args(arguments)
    s = setting(given.shape)
    failed = {}
    if s.device.type == "cuda":
        s.copied = copy_bandwidth(s)
    for name in given.parts or PARTS:
        start = time.perf_counter()
        try:
            with torch.no_grad():
                PARTS[name](s)
        except Exception:
            failed[name] = traceback.format_exc()
            sys.stdout.write(f"{name} failed:\n{failed[name]}")
        sys.stdout.write(f"{name}: {time.perf_counter() - start:.1f} s\n")
        _write(given.out, document(s, failed))
    bad = [r["name"] for r in s.records if r.get("ok") is False]
    sys.stdout.write(f"checks that do not hold: {', '.join(bad) or 'none'}\n")
    return 1 if failed or bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hybridspec.kernels.bench")
    parser.add_argument("--out", type=Path, help="the JSON document to write")
    parser.add_argument("--shape", choices=SHAPES, default="35b", help="whose sizes (%(default)s)")
    parser.add_argument("--parts", nargs="*", choices=PARTS, help="only these, in this order")
    return parser


def setting(shape: str) -> Setting:
    """The GPU in bf16 where there is one, else the interpreter in fp32 (its bf16 products are
    wrong)."""
    if not torch.cuda.is_available():
        return Setting(SHAPES[shape], torch.device("cpu"), torch.float32, Clock(), early=False)
    early = torch.cuda.get_device_capability()[0] >= 9
    device = torch.device("cuda", torch.cuda.current_device())
    return Setting(SHAPES[shape], device, torch.bfloat16, GraphClock(), early)


def copy(a: torch.Tensor, b: torch.Tensor) -> None:
    """b becomes a."""
    b.copy_(a)


def copy_bandwidth(s: Setting) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB."""
    a, b = (torch.empty(1 << 30, dtype=torch.uint8, device=s.device) for _ in range(2))
    us = s.clock([lambda: copy(a, b)])
    return 2 * a.nbytes / us * 1e6


def document(s: Setting, failed: dict[str, str]) -> dict[str, Any]:
    """What was found and on what."""
    cuda = s.device.type == "cuda"
    return {
        "gpu": torch.cuda.get_device_name() if cuda else None,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "copy_tb_s": round(s.copied / 1e12, 3) if s.copied else None,
        "failed": failed,
        "records": s.records,
    }


def _write(path: Path | None, found: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found, indent=1) + "\n")
