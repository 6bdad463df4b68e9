"""Bytes for people, how many are free, and whether more were asked for."""

from __future__ import annotations

from pathlib import Path

import torch


def size(nbytes: int) -> str:
    """In MB or GB, powers of ten."""
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:.1f} MB"


def is_full(error: BaseException) -> bool:
    """Whether memory was refused: a GPU says it by its class, a CPU in the message alone."""
    known = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return known or "can't allocate memory" in str(error)


def free_bytes(device: torch.device, facts: Path = Path("/proc/meminfo")) -> int | None:
    """What this process could have of a device's memory beside what it uses; None where the system
    does not say."""
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    try:
        lines = facts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    kib = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kib[0] * 1024 if kib else None
