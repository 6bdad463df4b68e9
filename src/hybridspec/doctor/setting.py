"""What is examined, and what the checks have found of it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from hybridspec.doctor.finding import Finding
from hybridspec.engine import Engine
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target


@dataclass
class Setting:
    """A pair on a device. Fields that begin as None are filled by the checks, for later ones.

    Attributes:
        model, draft: as of `sources.find_pair`.
        named: the profile that was asked for.
        device, dtype: where the pair is to run and in which numbers.
        folders: of target and drafter.
        models: both without storage, names and shapes checked.
        fits: whether their memory is there.
        profile: the file to load the engine with; None also where its own profile fits.
        engine: the loaded pair.
    """

    model: str | None
    draft: str | None
    named: Path | None
    device: torch.device
    dtype: torch.dtype
    folders: tuple[Path, Path | None] | None = None
    models: tuple[Target, Drafter | None] | None = None
    fits: bool | None = None
    profile: Path | None = None
    engine: Engine | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the pair is to run on a GPU."""
        return self.device.type == "cuda"


Check = Callable[[Setting], Iterator[Finding]]
