"""Executors whose rounds note the card's time where they begin and end."""

from __future__ import annotations

from hybridspec.bench.scripted.clocks.stamps import Stamps, form_with
from hybridspec.bench.scripted.device import DeviceExecutor
from hybridspec.bench.scripted.drafter import ScriptedDrafter
from hybridspec.bench.scripted.executor import Executor
from hybridspec.bench.scripted.model import Pair
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.graph.recorder import Work
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.runtime.launching import ON_DEVICE
from hybridspec.runtime.round import Rounds
from hybridspec.systems import System

LAST = "TargetPass.commit"  # the piece that ends a round which the host leads


class StampedTarget(LaunchedTarget):
    """Its recordings begin and end with a stamp."""

    def __init__(self, target: Target, stamps: Stamps) -> None:
        super().__init__(target)
        self._stamps = stamps

    def recorded(self, step: Work) -> Work:
        """As there."""
        return self._stamps.around(step, super().recorded)


class StampedDrafter(LaunchedDrafter):
    """Likewise."""

    def __init__(self, drafter: Drafter, target: Target, stamps: Stamps) -> None:
        super().__init__(drafter, target)
        self._stamps = stamps

    def recorded(self, step: Work) -> Work:
        """As there."""
        return self._stamps.around(step, super().recorded)


class StampedHost:
    """As `HostExecutor`; the host's own torch kernels between recordings are in no piece."""

    name = "host"
    joint: bool | None = True

    def __init__(self, pair: Pair, capacity: int, stamps: Stamps) -> None:
        """capacity: most tokens of prompt and answer."""
        pair.target.set_context(capacity)
        pair.drafter.set_context(capacity)
        target = StampedTarget(pair.target, stamps)
        self.target: Target = target
        drafter = StampedDrafter(pair.drafter, target, stamps)
        self.drafter: Drafter = ScriptedDrafter(drafter, pair.script)

    def rounds(self, system: System, *, forget: bool = False) -> Rounds:
        """As the engine's."""
        assert not forget, "a stamped run is no control"
        return Rounds(self.target, self.drafter, system)


def stamped(pair: Pair, capacity: int, launcher: str, stamps: Stamps) -> tuple[Executor, str]:
    """An executor, and the name of the piece that ends a round."""
    for known in ON_DEVICE:
        if known == launcher:
            return DeviceExecutor(pair, capacity, known, form=form_with(stamps)), ""
    return StampedHost(pair, capacity, stamps), LAST
