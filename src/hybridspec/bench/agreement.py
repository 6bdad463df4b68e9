"""`bench replay --against DIR`: what replay predicts of the very answers that a bench measured.

Prompts are matched by id, answers by length: greedy answers of one pair are the same, but for near
ties of rounding. A system's price is its rounds by the profile, and its policy's own time, which
the calibration's fixed lengths do not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from hybridspec.bench.clocked import Clocked
from hybridspec.bench.journal import DAMAGE, RECORDS
from hybridspec.bench.records import Record
from hybridspec.bench.replay import priced_system
from hybridspec.calibration.replay import replay
from hybridspec.calibration.trace import Trace
from hybridspec.errors import RequestError
from hybridspec.policy.profile import Profile


@dataclass(frozen=True)
class Bench:
    """A finished bench: its set-up and its answers to first turns."""

    setup: Mapping[str, Any]
    records: Sequence[Record]


def read_bench(folder: Path) -> Bench:
    """What a bench left in its folder. A last line that a kill cut is left out.

    Raises:
        RequestError: there is no bench, or its file is damaged.
    """
    path = folder / RECORDS
    try:
        data = path.read_bytes()
        rows = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
        setup = _checked(next(row for row in rows if row["kind"] == "setup"))
        records = [Record.from_json(row) for row in rows if row["kind"] == "record"]
    except OSError as error:
        raise RequestError(
            f"{path} cannot be read: {error.strerror}; expected the folder of `bench speed`."
        ) from None
    except (*DAMAGE, StopIteration):
        raise RequestError(f"{path} is damaged or of another version; run the bench again.") from (
            None
        )
    return Bench(setup, [r for r in records if r.key.turn == 0])


def _checked(setup: Mapping[str, Any]) -> Mapping[str, Any]:
    """A set-up with what is read of it; ValueError or KeyError for another."""
    most, systems = setup["max_tokens"], setup["systems"]
    if type(most) is not int or most < 1:
        raise ValueError(most)
    if not isinstance(systems, list) or not all(isinstance(name, str) for name in systems):
        raise ValueError(systems)
    return setup


def captured_names(work: Path, trace: Trace) -> list[str]:
    """Ids of the prompts that a calibration captured, by number.

    Raises:
        RequestError: the folder does not say, or not of all prompts of its traces.
    """
    try:
        names = json.loads((work / "prompts.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        names = None
    named = len(names) if isinstance(names, list) else 0
    if not isinstance(names, list) or not ((trace.prompt >= 0) & (trace.prompt < named)).all():
        raise RequestError(
            f"{work} does not name all its prompts; run `hybridspec calibrate` again, which keeps "
            "its traces."
        )
    return [str(name) for name in names]


def check_comparable(bench: Bench, capture: Mapping[str, Any], profile: Profile) -> None:
    """Refuse a bench whose answers or rounds are not those that replay walks.

    Raises:
        RequestError: names what differs and what to run.
    """
    setup, most = bench.setup, capture.get("max_tokens")
    pair = {"target": setup.get("model_sha256"), "drafter": setup.get("draft_sha256")}
    if pair != profile.pair:
        raise RequestError("The bench is of another pair than the profile.")
    if setup.get("temperature"):
        raise RequestError("The bench sampled its answers; the traces are of greedy ones.")
    if most is None or int(setup["max_tokens"]) > most:
        raise RequestError(
            f"The bench has answers of up to {setup['max_tokens']} tokens and the traces of up to "
            f"{most}. Run the bench with --max-tokens {most} or fewer."
        )
    if setup.get("profile_sha256") not in (None, profile.digest):
        raise RequestError("The bench ran with another profile. Give that one, or run it again.")


def shortened(trace: Trace, limit: int) -> Trace:
    """The trace as if its answers had been cut after so many tokens."""
    ends = np.append(trace.starts(), len(trace))
    sizes = np.diff(ends)
    number = np.arange(len(trace)) - np.repeat(ends[:-1], sizes)
    beyond = np.repeat(np.maximum(sizes - (limit - 1), 0), sizes)
    kept = trace.take(number < limit - 1)
    left = (trace.left - beyond)[number < limit - 1].astype(np.int32)
    return Trace(**{**vars(kept), "left": left})


def rows(
    trace: Trace, names: Sequence[str], profile: Profile, bench: Bench, systems: Sequence[str]
) -> list[dict[str, Any]]:
    """One row a system: predicted and measured speed over the answers that both have.

    Raises:
        RequestError: no answer is in both.
    """
    limit = int(bench.setup["max_tokens"])
    trace = shortened(trace, limit)
    out = [_row(trace, names, profile, bench, name, limit) for name in systems]
    plain = next((row for row in out if row["system"] == "ar"), None)
    for row in out:
        level = plain and plain["measured_tokens_per_second"] / plain["predicted_tokens_per_second"]
        predicted = row["predicted_tokens_per_second"] * level if level else None
        measured = row["measured_tokens_per_second"]
        row["deviation_percent_to_ar"] = predicted and 100 * (predicted / measured - 1)
    return out


def _row(
    trace: Trace, names: Sequence[str], profile: Profile, bench: Bench, name: str, limit: int
) -> dict[str, Any]:
    numbers, lengths = np.unique(trace.prompt, return_counts=True)
    expected = {names[n]: int(size) for n, size in zip(numbers, lengths, strict=True)}
    mine = [r for r in bench.records if r.key.system == name]
    differ = {r.key.prompt for r in mine if r.decode_tokens != expected.get(r.key.prompt, 0)}
    used = [r for r in mine if r.key.prompt not in differ]
    if not used:
        raise RequestError(
            f"No answer of {name} in the bench is in the traces too. Run `bench speed` on the "
            "prompts that were captured: the same --prompts, --split, --categories and --limit."
        )
    shared = [number for number, n in enumerate(names) if n in {r.key.prompt for r in used}]
    times = sum(len(r.rounds) for r in used)
    seconds, tokens = sum(r.decode_seconds for r in used), sum(r.decode_tokens for r in used)
    if not (times and isfinite(seconds) and seconds > 0 and tokens):
        raise RequestError(
            f"The answers of {name} in the bench have no timed rounds. Run it with longer answers."
        )
    system, model = priced_system(name, trace, profile)
    policy = Clocked(system.policy)
    walk = replay(trace.take(np.isin(trace.prompt, shared)), policy, model, limit)
    ms = float(walk.ms.sum()) + policy.ms * len(walk.w)
    predicted, measured = 1e3 * float(walk.emitted.sum()) / ms, tokens / seconds
    return {
        "system": name,
        "answers": len(used),
        "answers_left_out": len(mine) - len(used),
        "predicted_tokens_per_second": predicted,
        "measured_tokens_per_second": measured,
        "deviation_percent": 100 * (predicted / measured - 1),
        "predicted_acceptance_length": float(walk.emitted.mean()),
        "measured_acceptance_length": tokens / times,
        "predicted_ms_per_round": ms / len(walk.w),
        "measured_ms_per_round": 1e3 * seconds / times,
        "policy_ms_per_round": policy.ms,
    }
