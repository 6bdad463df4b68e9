"""Whether other work shares the cores with torch's threads, which then wait for each other."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from hybridspec.processor import cores

COST = "small models ran 15 to 60 times slower so"  # docs/log.md: two processes on two cores
REMEDY = "set OMP_NUM_THREADS=1, or to the cores that you have to yourself"


@dataclass(frozen=True, slots=True)
class Crowd:
    """The threads of torch and what else the machine does.

    Attributes:
        threads: of torch, for one product on a CPU.
        cores: that this process may use.
        load: the system's load average of the last minute; None where it tells none.
    """

    threads: int
    cores: int
    load: float | None

    @classmethod
    def here(cls) -> Crowd:
        """Of this process, now."""
        return cls(torch.get_num_threads(), cores(), _load())

    @property
    def slows(self) -> bool:
        """Whether more than one thread would run beside as much other work as there are cores."""
        return self.load is not None and self.load >= self.cores and self.threads > 1

    @property
    def note(self) -> str:
        """What it costs and what to do, in a sentence."""
        return (
            f"Note: other work runs here (load average {self.load:.1f}, {self.cores} cores) and "
            f"torch's {self.threads} threads will wait for each other ({COST}); set "
            "OMP_NUM_THREADS=1."
        )


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None
