"""Bytes for people, and how many are free."""

from __future__ import annotations

from pathlib import Path

import torch


def size(nbytes: int) -> str:
    """In MB or GB, powers of ten."""
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def free_bytes(device: torch.device, facts: Path = Path("/proc/meminfo")) -> int | None:
    """What a new process could have of a device's memory; None where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = facts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib[0] * 1024 if kib else None
