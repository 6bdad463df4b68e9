"""HybridSpec: lossless speculative decoding of hybrid GDN-MoE models for one user."""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["Engine", "HybridSpecError", "SamplingParams", "__version__"]

TYPE_CHECKING = False  # as type checkers know it; to import `typing` takes time
if TYPE_CHECKING:
    from typing import Any

    from hybridspec.core import SamplingParams
    from hybridspec.engine import Engine
    from hybridspec.errors import HybridSpecError

_HOMES = {
    "Engine": "hybridspec.engine",
    "SamplingParams": "hybridspec.core",
    "HybridSpecError": "hybridspec.errors",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes a second, and `hybridspec --help` needs none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'hybridspec' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
