"""Who runs the rounds of a system. Everything else of the bench is the same for all of them."""

from __future__ import annotations

from typing import Protocol, cast

from hybridspec.bench.scripted.drafter import ScriptedDrafter
from hybridspec.bench.scripted.model import Pair
from hybridspec.model.drafter import Drafter
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import Target
from hybridspec.runtime.accelerate import accelerated, accelerated_drafter
from hybridspec.runtime.round import Rounds
from hybridspec.runtime.state import TargetSlot
from hybridspec.systems import System


class Executor(Protocol):
    """A runtime. Answers are taken from `rounds` as `stream.py` takes them.

    Attributes:
        name: in results.
        joint: of a sequence's memory, see `TargetState`.
        target, drafter: the pair as this runtime runs prompts; the drafter scripted.
    """

    name: str
    joint: bool | None
    target: Target
    drafter: Drafter

    def rounds(self, system: System, *, forget: bool = False) -> Rounds:
        """An answer's rounds. forget: every round is to commit one input fewer than it should, for
        the control of the checks."""


class HostExecutor:
    """The engine's own rounds: lengths are read on the host. On a GPU the passes are recorded."""

    name = "host"
    joint: bool | None = None

    def __init__(self, pair: Pair, capacity: int) -> None:
        """capacity: most tokens of prompt and answer."""
        pair.target.set_context(capacity)
        pair.drafter.set_context(capacity)
        self.target = accelerated(pair.target)
        drafter = accelerated_drafter(pair.drafter, self.target)
        self.drafter: Drafter = ScriptedDrafter(drafter, pair.script)

    def rounds(self, system: System, *, forget: bool = False) -> Rounds:
        """As the engine's."""
        target = cast(Target, Forgetful(self.target)) if forget else self.target
        return Rounds(target, self.drafter, system)


class Forgetful:
    """A target whose states lag: of m inputs it commits m - 1, and counts m."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __getattr__(self, name: str) -> object:
        return getattr(self._target, name)

    def commit(self, slot: TargetSlot, m: int, verifier: Verifier) -> None:
        """One too few."""
        self._target.commit(slot, m - 1, verifier)
        slot.length += 1
