"""A model and its drafter as the command line names them, and the engine that runs them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hybridspec.cli.interrupts import held_back
from hybridspec.cli.output import note
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    import typer  # benches import this module where it is not installed

    from hybridspec.engine import Engine

EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Pair:
    """What was asked for: folders or Hub ids, and revisions of the latter. None: the embedded pair.

    Attributes:
        model, draft, revision, draft_revision: as of `hybridspec.sources.find_pair`.
    """

    model: str | None = None
    draft: str | None = None
    revision: str | None = None
    draft_revision: str | None = None

    @property
    def names(self) -> tuple[str, str | None]:
        """The target and the drafter, as they were named; no drafter is None."""
        without = EMBEDDED if self.model is None else None
        return self.model or EMBEDDED, self.draft or without


def one_model(context: typer.Context, place: str | None, option: str | None) -> str | None:
    """The target of a verb that takes MODEL and --model alike; None: neither is given.

    Args:
        context: of the verb, whose parameter `model` is the place.
        place: MODEL, or the environment variable that stands for it; --model goes before that one.
        option: --model.

    Raises:
        RequestError: both are on the command line.
    """
    source = context.get_parameter_source("model")
    typed = source is not None and source.name == "COMMANDLINE"
    if typed and place is not None and option is not None:
        raise RequestError(
            f"There are two models, MODEL {place!r} and --model {option!r}; expected one of them."
        )
    return place if option is None else option


def import_engine() -> None:
    """Imports torch and all else that an answer needs; takes a second or two.

    Raises:
        KeyboardInterrupt: Ctrl-C came meanwhile.
    """
    with held_back():
        import hybridspec.engine  # noqa: F401


def load_engine(
    pair: Pair,
    *,
    system: str | None,
    device: str,
    dtype: str,
    max_context: int | None,
    profile: Path | None = None,
    kernels: bool = True,
    launcher: str = "auto",
    prefix_memory: int = 0,
) -> Engine:
    """The engine of a pair. What costs little is checked before the weights are read.

    Raises:
        HybridSpecError: a checkpoint, an option or a decoding system that cannot be used.
    """
    from hybridspec.crowd import Crowd
    from hybridspec.engine import Engine
    from hybridspec.placement import choose_device
    from hybridspec.sources import find_pair

    target, drafter = find_pair(pair.model, pair.draft, pair.revision, pair.draft_revision)
    if system is not None:
        _check_system(system, target, drafter, device, dtype, profile)
    crowd = Crowd.here()  # before our own work counts in it
    if choose_device(device).type == "cpu" and crowd.slows:
        _once(crowd.note)
    progress = None if sys.stderr is not None else False  # a bar needs a place to be drawn
    return Engine.load(
        target,
        drafter,
        device=device,
        dtype=dtype,
        max_context=max_context,
        progress=progress,
        profile=profile,
        kernels=kernels,
        launcher=launcher,
        prefix_memory=prefix_memory,
    )


@cache
def _once(sentence: str) -> None:
    """Said once a process, whatever it loads."""
    note(sentence)


def uncalibrated(engine: Engine) -> str:
    """What to say where a pair runs by its default system for want of a profile; else nothing."""
    if engine.drafter is None or engine.profile is not None:
        return ""
    return (
        f"Note: no calibration profile is loaded, so every round has the fixed length of "
        f"{engine.default_system}; `hybridspec calibrate --help` says how to make one here."
    )


def _check_system(
    system: str, target: Path, drafter: Path | None, device: str, dtype: str, named: Path | None
) -> None:
    from hybridspec.checkpoint import read_drafter_config
    from hybridspec.placement import choose_device, choose_dtype
    from hybridspec.profiles import find_profile
    from hybridspec.systems import parse_system

    place = choose_device(device)
    profile = find_profile(named, target, drafter, place, choose_dtype(dtype, place))
    block = None if drafter is None else read_drafter_config(drafter).block_size
    parse_system(system, block, profile)
