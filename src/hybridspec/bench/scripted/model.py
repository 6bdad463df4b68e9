"""A scripted pair: a target that knows one text, its drafter, and what that is to say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from hybridspec.bench.scripted.cycle import Cycle
from hybridspec.bench.scripted.script import Script
from hybridspec.bench.scripted.shapes import Shape
from hybridspec.bench.scripted.thinning import Thinned
from hybridspec.bench.scripted.weights import Recipe, scripted_drafter, scripted_target
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

Name = tuple[str, str]  # split and category of a trace


@dataclass(frozen=True, eq=False)
class Part:
    """A trace, and the rows of the script's tables that hold it."""

    rows: range
    trace: Thinned

    def start(self, share: float) -> int:
        """The place of a round's beginning, a share from 0 to 1 of the way through."""
        starts = self.trace.starts
        return int(starts[int(share * len(starts)) % len(starts)])


@dataclass(frozen=True, eq=False)
class Pair:
    """target and drafter, ready to run; the script of the drafter, with its traces by name."""

    cycle: Cycle
    target: Target
    drafter: Drafter
    script: Script
    parts: dict[Name, Part]

    @classmethod
    def make(
        cls, shape: Shape, recipe: Recipe, named: dict[Name, Thinned], device: torch.device,
        dtype: torch.dtype, seed: int = 0,
    ) -> Pair:  # fmt: skip
        """Everything from a seed; named: what the drafter is to say, by split and category."""
        generator = torch.Generator(device).manual_seed(seed)
        cycle = Cycle.random(shape.target.vocab_size, shape.outside, generator)
        target = scripted_target(shape.target, cycle, recipe, generator, dtype)
        drafter = scripted_drafter(Drafter(shape.drafter, device, dtype), generator)
        return cls(cycle, target, drafter, *scripted(cycle, named))

    def begin(self, name: Name, position: int, share: float = 0.0) -> None:
        """Let position P be where a round of that trace begins."""
        part = self.parts[name]
        self.script.begin(part.rows, position, part.start(share))


def scripted(cycle: Cycle, named: dict[Name, Thinned]) -> tuple[Script, dict[Name, Part]]:
    """Tables of all traces end to end, and where each lies."""
    parts, first = {}, 0
    for name, thin in named.items():
        parts[name] = Part(range(first, first + len(thin.trace)), thin)
        first += len(thin.trace)
    every = [thin.trace for thin in named.values()]
    columns = ("accepted", "confidence", "entropy")
    tables = (np.concatenate([getattr(t, name) for t in every]) for name in columns)
    return Script.of(cycle, *map(torch.from_numpy, tables)), parts
