"""Which work a GPU's kernels do and what is left to plain torch: said once, never silently."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable

import torch

OLDEST = (8, 0)  # compute capability: bf16 products and asynchronous copies
PACKAGES = {"triton": "Triton", "cuda.bindings": "cuda-bindings"}
log = logging.getLogger("hybridspec")
_said: dict[str, None] = {}


def once(reason: str) -> None:
    """Warn of something that runs slower than it could; a second time says nothing."""
    if reason not in _said:
        _said[reason] = None
        log.warning(reason)


def said() -> tuple[str, ...]:
    """All that was said, in order."""
    return tuple(_said)


def installed(package: str) -> bool:
    """Whether a package, or one inside another, can be imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # the one around it is missing
        return False


def missing(device: torch.device) -> str | None:
    """Why no kernel runs on a CUDA device, as the end of a sentence; None if they do."""
    for package, name in PACKAGES.items():
        if not installed(package):
            return f"{name} is not installed"
    capability = torch.cuda.get_device_capability(device)
    if capability < OLDEST:
        return f"the card's compute capability is {capability[0]}.{capability[1]}, below 8.0"
    if device.index not in (None, torch.cuda.current_device()):  # where launches go
        return f"kernels run on the current GPU; call torch.cuda.set_device({device.index})"
    return None


def serves(what: str, device: torch.device, refusal: Callable[[], str | None]) -> bool:
    """Whether kernels do `what` (the subject of a sentence) on a device; says so where they cannot.

    `refusal`: their own reason, asked for only where Triton is there. A CPU never has kernels.
    """
    if device.type != "cuda":
        return False
    reason = missing(device) or refusal()
    if reason is not None:
        once(f"{what} run in plain torch, slower than they could: {reason}.")
    return reason is None
