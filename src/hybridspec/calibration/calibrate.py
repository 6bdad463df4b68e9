"""From prompts to a profile: capture, measure, fit. Each finished step is kept and not run again.

The work folder beside the profile holds a trace a prompt, which belong to the pair and serve
`replay` too, and a folder of times for each machine and setting they were taken with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hybridspec.bench.files import write_atomically
from hybridspec.calibration.assemble import fit_profile, screening
from hybridspec.calibration.capture import Capture
from hybridspec.calibration.fit import check_suffices
from hybridspec.calibration.rounds import Samples, timed_rounds
from hybridspec.calibration.slopes import Slopes, measure_slopes
from hybridspec.calibration.sweep import Sweep, measured_sweep, screened
from hybridspec.calibration.trace import CalibrationError, Trace, joined
from hybridspec.catalogue import CATALOGUE, LAUNCHER
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from hybridspec.model.gdn import Verifier
from hybridspec.policy.profile import Profile

Advance = Callable[[str], None]
STATIC = CATALOGUE["static"].verifier  # on which a fixed length is swept


@dataclass(frozen=True)
class Plan:
    """What a calibration runs.

    Attributes:
        prompts: token ids by number.
        max_tokens: of each captured answer.
        timed_prompts, timed_tokens: answers measured at every length.
        verifiers: those whose cost is measured.
        about: what identifies the traces; a work folder of others is refused.
        machine: what identifies the times; other ones are taken beside those that are there.
        names: ids of the prompts, for comparisons with runs of the same.
    """

    prompts: Sequence[list[int]]
    max_tokens: int
    timed_prompts: int
    timed_tokens: int
    verifiers: tuple[Verifier, ...]
    about: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()

    @property
    def steps(self) -> int:
        """Calls of `advance` in a whole run."""
        timed = min(self.timed_prompts, len(self.prompts))
        swept = len(self.prompts) if STATIC in self.verifiers else 0
        return len(self.prompts) + len(self.verifiers) * timed + swept + 2


def calibrate(engine: Engine, plan: Plan, work: Path, advance: Advance) -> Profile:
    """Run what the work folder lacks, then fit.

    Raises:
        CalibrationError: a work folder of another calibration, one that cannot be written, or too
            few rounds for a fit.
    """
    _claim(work, plan.about, "prompts, answer length, pair, device or dtype")
    _write(work / "prompts.json", json.dumps(list(plan.names)))
    trace = _captured(engine, plan, work, advance)
    check_suffices(trace)
    times = work / f"times-{_digest(plan.machine)}"
    _claim(times, plan.machine, "the machine, threads or sizes")
    costs = _timed(engine, plan, times, advance)
    advance("Stage 0 and experts")
    slopes = _slopes(engine, times / "slopes.json")
    sweeps = _swept(engine, plan, times, costs, trace, slopes, advance)
    advance("fits")
    verifiers = {"verifiers": list(plan.verifiers)}
    return fit_profile(trace, costs, slopes, {**plan.about, **plan.machine, **verifiers}, sweeps)


def _digest(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()[:12]


def _claim(folder: Path, about: Mapping[str, Any], what: str) -> None:
    """Make the folder this calibration's, or find that it is."""
    mark, text = folder / "about.json", json.dumps(dict(about), sort_keys=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = _marked(mark)
    except OSError as error:
        raise CalibrationError(f"{folder} cannot be used: {error.strerror}.") from None
    if found is None:
        _write(mark, text)
    elif found != text:
        raise CalibrationError(
            f"{folder} holds a calibration with other settings: {what}. Delete it, or choose "
            "another --out."
        )


def _marked(mark: Path) -> str | None:
    """What a folder says it holds; None where it says nothing that can be read, as after a full
    disk."""
    if not mark.exists():
        return None
    text = mark.read_text(encoding="utf-8", errors="replace")
    try:
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, RecursionError):
        return None


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, text)
    except RequestError as error:
        raise CalibrationError(
            f"{error} Or make room there and run the same command again: what was measured before "
            "is kept."
        ) from None


def _captured(engine: Engine, plan: Plan, work: Path, advance: Advance) -> Trace:
    assert engine.drafter is not None
    capture = Capture(engine.target, engine.drafter, engine.max_context)
    parts = []
    for number, ids in enumerate(plan.prompts):
        advance(f"capture, answer {number + 1}")
        path = work / f"trace-{number:04d}.npz"
        kept = _kept(path)
        if kept is None:
            capture.answer(number, ids, engine.defaults.eos_token_ids, plan.max_tokens).save(path)
            kept = Trace.load(path)
        parts.append(kept)
    return joined(parts)


def _kept(path: Path) -> Trace | None:
    """A trace from before; None where there is none, or a damaged one."""
    try:
        return Trace.load(path) if path.exists() else None
    except CalibrationError:
        return None


def _timed(engine: Engine, plan: Plan, times: Path, advance: Advance) -> dict[str, Samples]:
    """Rounds of every length, by "verifier/launcher"."""
    prompts, costs = plan.prompts[: plan.timed_prompts], {}
    for verifier in plan.verifiers:
        path = times / f"rounds-{verifier}.jsonl"
        costs[f"{verifier}/{LAUNCHER}"] = timed_rounds(
            engine, prompts, plan.timed_tokens, verifier, path, advance
        )
    return costs


def _slopes(engine: Engine, path: Path) -> Slopes:
    """s and eta of this machine, from before where they were measured."""
    try:
        return Slopes(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        slopes = measure_slopes(engine)
        _write(path, json.dumps(asdict(slopes)))
        return slopes


def _swept(
    engine: Engine,
    plan: Plan,
    times: Path,
    costs: Mapping[str, Samples],
    trace: Trace,
    slopes: Slopes,
    advance: Advance,
) -> dict[str, Sweep]:
    """The few best fixed lengths, measured on all prompts."""
    name = f"{STATIC}/{LAUNCHER}"
    if name not in costs:
        return {}
    lengths = screened(screening(trace, costs[name], slopes))
    path = times / f"static-{STATIC}.jsonl"
    sweep = measured_sweep(engine, plan.prompts, plan.timed_tokens, lengths, STATIC, path, advance)
    return {name: sweep}
