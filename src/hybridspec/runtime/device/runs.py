"""An engine's runs: which answers have one, and the memory that all of them share."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import NamedTuple

import torch

from hybridspec.kernels.length.rule import Rule
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.device.passes import Passes
from hybridspec.runtime.device.ring import Ring
from hybridspec.runtime.device.round import Plan, Round
from hybridspec.runtime.device.run import Run
from hybridspec.runtime.graph import Figures
from hybridspec.runtime.graph.executable import unable
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.runtime.launching import Launcher
from hybridspec.runtime.round import Sequence
from hybridspec.systems import System

# Rows of the ring, twice a launch's rounds. 32 rounds are about 0.1 s, and no host is late by that.
ROUNDS = 64
# Where the host leads the loop, a launch returns with its last round: tokens still come one by one.
LED = 2
MOST = 16  # recordings that are kept; a user may come with a new `System` at every answer

_Places = tuple[object, ...]


class _Known(NamedTuple):
    """A system's run, and the system itself, so that no other takes its identity."""

    system: System
    run: Run


class Runs:
    """The runs of one engine: its slots lie in the same memory for all answers."""

    def __init__(
        self, target: LaunchedTarget, drafter: LaunchedDrafter | None, launcher: Launcher, *,
        rounds: int | None = None, form: Callable[..., Round] = Round,
    ) -> None:  # fmt: skip
        """Nothing is recorded before an answer needs it.

        Args:
            rounds: rows of the ring, an even number; by default ROUNDS or LED.
            form: makes rounds, with the arguments of `Round`: for a benchmark that scripts drafts
                or spoils a round on purpose.
        """
        self.target, self.drafter, self.launcher, self.form = target, drafter, launcher, form
        with torch.inference_mode(False):
            self.memory = Memory.empty(target.config.vocab_size, target.device)
        self.ring = Ring(rounds or _rows(launcher, target.device), target.device)
        self._plans: dict[int, tuple[System, Plan | str]] = {}
        self._known: dict[tuple[int, _Places], _Known] = {}
        self._passes: dict[_Places, Passes] = {}
        self._running: Run | None = None
        # Dropped in the middle of an answer, pinned memory would be given to others while the
        # device still writes there.
        weakref.finalize(self, _end, self.ring, target.device).atexit = False

    def refusal(self, system: System) -> str | None:
        """Why a system's rounds do not stay on the device, as a sentence; None if they do."""
        if system.drafts and self.drafter is None:
            return "The drafter's proposals do not run as kernels here."
        plan = self._plan(system)
        return plan if isinstance(plan, str) else None

    def of(self, system: System, sequence: Sequence) -> Run:
        """The run of a system that is not refused."""
        places = self._places(system, sequence)
        key = (id(system), places)
        if key not in self._known:
            with torch.inference_mode(False):
                self._known[key] = _Known(system, self._made(system, sequence, places))
        run = self._known[key].run
        if self._running is not run:
            self.halt()
        self._running = run
        self._forget(key)
        return run

    @property
    def figures(self) -> dict[str, Figures]:
        """Of every recorded run that is one graph, by its system's name."""
        runs = {known.system.name: known.run for known in self._known.values()}
        return {name: run.figures for name, run in runs.items() if run.figures is not None}

    def halt(self) -> None:
        """Wait until nothing runs on the sequence's memory."""
        running, self._running = self._running, None
        if running is not None:
            running.halt()

    def _forget(self, newest: tuple[int, _Places]) -> None:
        """Of more than MOST recordings, those that were used last stay."""
        self._known[newest] = self._known.pop(newest)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]

    def _made(self, system: System, sequence: Sequence, places: _Places) -> Run:
        if places not in self._passes:
            self._passes[places] = self._joined(system, sequence)
        plan = self._plan(system)
        assert not isinstance(plan, str), plan
        early = self.target.early and self.launcher != "switch"
        round_ = self.form(plan, self._passes[places], self.memory, self.ring, early=early)
        return Run(round_, self.launcher)

    def _plan(self, system: System) -> Plan | str:
        """A system's plan, or why it has none. Made once: its tables go to the device."""
        if id(system) not in self._plans:
            plan: Plan | str
            try:
                plan = plan_of(system, self.target)
            except ValueError as error:
                plan = str(error)
            self._plans[id(system)] = system, plan
            if len(self._plans) > 4 * MOST:
                del self._plans[next(iter(self._plans))]
        return self._plans[id(system)][1]

    def _joined(self, system: System, sequence: Sequence) -> Passes:
        shared = self.target, sequence.slot, system.verifier, self.memory
        if not system.drafts:
            return Passes.plain(*shared)
        assert self.drafter is not None
        assert sequence.drafter_slot is not None
        return Passes.drafting(*shared, self.drafter, sequence.drafter_slot)

    def _places(self, system: System, sequence: Sequence) -> _Places:
        """What passes are made for, and where everything lies that a recording has addresses of."""
        tables = [self.target.rope.cos] + ([self.drafter.rope.cos] if self.drafter else [])
        addresses = [t.data_ptr() for t in (sequence.slot.checkpoint, *tables)]
        return (system.verifier, sequence.slot.tap_layers, *addresses)


def _end(ring: Ring, device: torch.device) -> None:
    """Nothing writes a ring after it."""
    ring.ask_to_end()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rows(launcher: Launcher, device: torch.device) -> int:
    led = launcher == "eager" or device.type != "cuda" or unable() is not None
    return LED if led else ROUNDS


def runs_of(target: Target, drafter: Drafter | None, launcher: Launcher) -> Runs | None:
    """Of models whose passes are kernels; None where the target's are not. A drafter whose passes
    are not is left out, and its systems are refused."""
    if not isinstance(target, LaunchedTarget):
        return None
    return Runs(target, drafter if isinstance(drafter, LaunchedDrafter) else None, launcher)


def plan_of(system: System, target: Target) -> Plan:
    """A system's plan.

    Raises:
        ValueError: no kernel chooses its lengths.
    """
    rule = Rule.of(system.policy, target.device)
    return Plan(rule, system.policy.scored, split=rule.lookahead > 0)
