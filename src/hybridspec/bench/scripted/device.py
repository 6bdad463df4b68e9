"""Rounds that stay on the device (`runtime/device`), their drafts a script's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor

from hybridspec.bench.scripted.drafter import ScriptedDrafter, draft
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.script import Drafts, Script
from hybridspec.kernels.head.head import Answer
from hybridspec.kernels.support import once
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.device.passes import Passes
from hybridspec.runtime.device.round import Plan, Round
from hybridspec.runtime.device.rounds import DeviceRounds
from hybridspec.runtime.device.runs import Runs
from hybridspec.runtime.device.signals import settle
from hybridspec.runtime.graph import Figures
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.launched_drafter import LaunchedDrafter
from hybridspec.runtime.launching import Launcher
from hybridspec.runtime.round import Rounds
from hybridspec.systems import System


class DeviceExecutor:
    """An `Executor` of runs. Where no kernel chooses a system's lengths the host leads, said
    once."""

    joint: bool | None = True

    def __init__(
        self, pair: Pair, capacity: int, launcher: Launcher, *, form: Callable[..., Round] = Round
    ) -> None:
        """capacity: most tokens of prompt and answer. form: makes rounds, as of `Runs`."""
        pair.target.set_context(capacity)
        pair.drafter.set_context(capacity)
        self.name, target = str(launcher), LaunchedTarget(pair.target)
        drafter = LaunchedDrafter(pair.drafter, target)
        self.target: Target = target
        self.drafter: Drafter = ScriptedDrafter(drafter, pair.script)
        self._runs = Runs(target, drafter, launcher, form=partial(_round, form, pair.script))
        wrong = partial(_round, _Forgetful, pair.script)
        self._forgetful = Runs(target, drafter, launcher, form=wrong)

    @property
    def figures(self) -> dict[str, Figures]:
        """Of the graph of every system recorded so far, by its name."""
        return self._runs.figures

    def rounds(self, system: System, *, forget: bool = False) -> Rounds:
        """As `Executor.rounds`."""
        runs, other = self._runs, self._forgetful
        if forget:
            runs, other = other, runs
        other.halt()
        reason = runs.refusal(system)
        if reason is None:
            return DeviceRounds(runs, system)
        once(f"Rounds of the system {system.name} are led by the host. {reason}")
        return Rounds(self.target, self.drafter, system)


class _Forgetful(Round):
    """Of m inputs it commits m - 1, and counts m."""

    def keep(self) -> None:
        """One too few."""
        numbers = self.memory.numbers
        numbers.kept.sub_(1).clamp_(min=0)
        settle(numbers)  # the commit reads it ahead of its turn
        super().keep()


def _round(
    form: Callable[..., Round], script: Script, plan: Plan, passes: Passes, *rest: Any, **more: Any
) -> Round:
    """A round whose drafts, if it has any, are the script's."""

    def replace(anchor: Tensor, position: Tensor, answer: Answer) -> None:
        draft(script, anchor, position, Drafts(answer.tokens, answer.confidence, answer.entropy))

    replaced = None if passes.drafter is None else replace
    return form(plan, passes, *rest, replace=replaced, **more)
