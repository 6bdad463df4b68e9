"""Where and with what a bench ran: processor, memory, GPU, versions, the code."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import hybridspec
from hybridspec.errors import RequestError
from hybridspec.processor import cores, processor_name

PACKAGE = Path(hybridspec.__file__).parent
SAME = ("gpu", "cpu", "driver", "torch")  # of a machine: figures of two do not go together
SOURCES = (".py", ".cu", ".cuh")
NOT_MEASURED = ("bench", "cli")  # a change there does not change what is measured


def machine(device: torch.device) -> dict[str, Any]:
    """The machine as far as speed depends on it; GPU facts only where one is used."""
    facts: dict[str, Any] = {
        "cpu": processor_name(),
        "cores": cores(),
        "memory_gib": _memory_gib(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    return facts | (_gpu(device) if device.type == "cuda" else {})


def code() -> dict[str, Any]:
    """The package's version and a SHA-256 over its source, without bench and command line."""
    total = hashlib.sha256()
    for path in sorted(p for p in PACKAGE.rglob("*") if p.suffix in SOURCES):
        name = path.relative_to(PACKAGE)
        if name.parts[0] not in NOT_MEASURED:
            total.update(f"{name.as_posix()} ".encode() + path.read_bytes())
    return {"hybridspec": hybridspec.__version__, "source_sha256": total.hexdigest()}


def circumstances() -> dict[str, Any]:
    """What may change between two runs of one bench: date, load, the project's commit."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "commit": _commit(),
    }


def check_same(path: Path, before: Mapping[str, Any], here: Mapping[str, Any]) -> None:
    """Refuse to go on with a document of something else.

    Args:
        path: of the document. before: what it holds, by name; here: what this run has.

    Raises:
        RequestError: the first that differs.
    """
    for name, now in here.items():
        if before[name] != now:
            raise RequestError(
                f"{path} has {name} {before[name]!r} and this run {now!r}; go on where it was "
                "begun, or choose another file with --out."
            )


def _memory_gib() -> float | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return round(int(line.split()[1]) / 2**20, 1)
    return None


def _gpu(device: torch.device) -> dict[str, Any]:
    """GPU name and memory from torch; driver, power limit and clocks from the driver's own tool."""
    properties = torch.cuda.get_device_properties(device)
    facts = {
        "gpu": properties.name,
        "gpu_memory_gib": round(properties.total_memory / 2**30, 1),
        "cuda": torch.version.cuda,
    }
    asked = ("driver_version", "power.limit", "clocks.max.sm")
    index = device.index if device.index is not None else torch.cuda.current_device()
    command = ["nvidia-smi", f"--query-gpu={','.join(asked)}", "--format=csv,noheader"]
    said = _output([*command, f"--id={_physical(index)}"])
    if said is not None:
        names = ("driver", "power_limit", "max_clock")
        facts |= dict(zip(names, (part.strip() for part in said.split(",")), strict=False))
    return facts


def _physical(index: int) -> str:
    """The driver's name of a GPU that CUDA_VISIBLE_DEVICES may have renumbered."""
    visible = [
        n.strip() for n in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if n.strip()
    ]
    return visible[index] if index < len(visible) else str(index)


def _commit(
    output: Callable[[list[str]], str | None] | None = None, package: Path = PACKAGE
) -> str | None:
    """The commit of the checkout that the package runs from, `+` with changes; None elsewhere.

    An installed package may lie inside some other project's repository, which is not ours to name.
    """
    ask = output or _output
    root = package.parent.parent
    if package.parent.name != "src" or not (root / ".git").exists():
        return None
    head = ask(["git", "-C", str(root), "rev-parse", "HEAD"])
    if head is None:
        return None
    changed = ask(["git", "-C", str(root), "status", "--porcelain", "--", "src"])
    return head + ("+" if changed else "")


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
