"""Who leads an answer from round to round: the host, or a run on the device; imports none of the
latter where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import torch

from hybridspec.kernels.support import installed, once
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.round import Rounds
from hybridspec.runtime.steering import SteeredRounds, Steering
from hybridspec.systems import System
from hybridspec.text.stop import OutputStream

if TYPE_CHECKING:
    from hybridspec.runtime.device.runs import Runs

Launcher = Literal["loop", "switch", "eager"]  # those that stay on the device
ON_DEVICE: tuple[Launcher, ...] = get_args(Launcher)
LAUNCHERS = ("auto", "host", *ON_DEVICE)
AUTO: Launcher = "loop"  # on a GPU: 0.5% faster than `switch` (docs/runtime.md)


class Launching:
    """An engine's models and the launcher that was asked for."""

    def __init__(self, launcher: str, target: Target, drafter: Drafter | None) -> None:
        """launcher: one of LAUNCHERS."""
        self._target, self._drafter = target, drafter
        chosen = _chosen(launcher, target)
        self.runs = None if chosen is None else _runs(chosen, target, drafter)

    @property
    def on_device(self) -> bool:
        """Whether rounds of some systems stay there."""
        return self.runs is not None

    @property
    def name(self) -> str:
        """The launcher of those rounds; `host` where none stay there."""
        return "host" if self.runs is None else self.runs.launcher

    def rounds(
        self,
        system: System,
        output: OutputStream,
        target: Target,
        *,
        observed: bool,
        steering: Steering | None = None,
    ) -> Rounds:
        """The rounds of an answer. Where they do not stay on the device, the reason is said once.

        Args:
            target: the engine's at present; another than its first, a form of it to be compared, is
                led by the host.
            observed: whether rounds must tell more than their figures: explanations, drafts.
            steering: what the request does with the target's rows beside taking tokens.
        """
        if self.runs is None or target is not self._target:
            return self._hosted(target, system, steering)
        from hybridspec.runtime.device.memory import STOPS
        from hybridspec.runtime.device.rounds import DeviceRounds

        reason = self.runs.refusal(system)
        if steering is not None:
            reason = "Penalties, bias, grammars and log-probabilities are made on the host."
        elif observed:
            reason = "Explanations and kept drafts are made on the host."
        elif len(output.stop_ids) > STOPS:
            reason = f"More than {STOPS} stop ids are compared on the host."
        if reason is None:
            return DeviceRounds(self.runs, system)
        once(f"Rounds of the system {system.name} are led by the host, which takes time. {reason}")
        return self._hosted(target, system, steering)

    def _hosted(self, target: Target, system: System, steering: Steering | None) -> Rounds:
        if steering is None:
            return Rounds(target, self._drafter, system)
        return SteeredRounds(target, self._drafter, system, steering)

    def halt(self) -> None:
        """Nothing runs on the device after it."""
        if self.runs is not None:
            self.runs.halt()


def _chosen(launcher: str, target: Target) -> Launcher | None:
    """None: the host. What was not asked for is not missed, so `auto` says nothing."""
    if launcher == "auto":
        serves = target.device.type == "cuda" and installed("triton")
        return AUTO if serves and _is_launched(target) else None
    return next((known for known in ON_DEVICE if known == launcher), None)


def _is_launched(target: Target) -> bool:
    from hybridspec.runtime.launched import LaunchedTarget

    return isinstance(target, LaunchedTarget)


def _runs(launcher: Launcher, target: Target, drafter: Drafter | None) -> Runs | None:
    """The device's part, where the models run as kernels."""
    if installed("triton"):
        from hybridspec.runtime.device.runs import runs_of

        made = runs_of(target, drafter, launcher)
        if made is not None:
            return made
    reason = _refusal(target)
    once(f"All rounds are led by the host, and not by the launcher {launcher}: {reason} here.")
    return None


def _refusal(target: Target) -> str:
    """Why nothing stays on the device. Without a GPU nothing else is worth mending."""
    if target.device.type != "cuda":
        return "the model is on a CPU" if torch.cuda.is_available() else "there is no GPU"
    if not installed("triton"):
        return "Triton is not installed"
    return "the target's verifications do not run as kernels"
