"""From prompts to a profile: capture, measure, fit. Each finished step is kept and not run again.

The work folder beside the profile holds a trace a prompt and a line a measured answer; they serve
`replay` too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hybridspec.calibration.assemble import fit_profile
from hybridspec.calibration.capture import Capture
from hybridspec.calibration.rounds import timed_rounds
from hybridspec.calibration.slopes import measure_slopes
from hybridspec.calibration.trace import CalibrationError, Trace, joined
from hybridspec.catalogue import LAUNCHER
from hybridspec.engine import Engine
from hybridspec.model.gdn import Verifier
from hybridspec.policy.profile import Profile

Advance = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """What a calibration runs.

    Attributes:
        prompts: token ids by number.
        max_tokens: of each captured answer.
        timed_prompts, timed_tokens: answers measured at every length.
        verifiers: those whose cost is measured.
        about: what identifies the run; a work folder of another one is refused.
    """

    prompts: Sequence[list[int]]
    max_tokens: int
    timed_prompts: int
    timed_tokens: int
    verifiers: tuple[Verifier, ...]
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Calls of `advance` in a whole run."""
        timed = min(self.timed_prompts, len(self.prompts))
        return len(self.prompts) + len(self.verifiers) * timed + 2


def calibrate(engine: Engine, plan: Plan, work: Path, advance: Advance) -> Profile:
    """Run what the work folder lacks, then fit.

    Raises:
        CalibrationError: a work folder of another calibration, or too few rounds for a fit.
    """
    _claim(work, plan)
    trace = _captured(engine, plan, work, advance)
    prompts, costs = plan.prompts[: plan.timed_prompts], {}
    for verifier in plan.verifiers:
        path = work / f"rounds-{verifier}.jsonl"
        costs[f"{verifier}/{LAUNCHER}"] = timed_rounds(
            engine, prompts, plan.timed_tokens, verifier, path, advance
        )
    advance("Stage 0 and experts")
    slopes = measure_slopes(engine)
    advance("fits")
    return fit_profile(trace, costs, slopes, plan.about)


def _claim(work: Path, plan: Plan) -> None:
    """Make the folder this calibration's, or find that it is."""
    about = json.dumps(dict(plan.about), sort_keys=True)
    mark = work / "about.json"
    try:
        work.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            mark.write_text(about, encoding="utf-8")
        elif mark.read_text(encoding="utf-8", errors="replace") != about:
            raise CalibrationError(
                f"{work} holds a calibration with other settings: prompts, sizes, verifiers, "
                "threads, pair or machine. Delete it, or choose another --out."
            )
    except OSError as error:
        raise CalibrationError(f"{work} cannot be used: {error.strerror}.") from None


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
