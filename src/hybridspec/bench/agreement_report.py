"""What `bench replay --against DIR` says: a table, and one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hybridspec.bench import agreement
from hybridspec.bench.files import write_atomically
from hybridspec.bench.replay import (
    capture_facts,
    check_pair,
    check_shape,
    has_costs,
    load_trace,
)
from hybridspec.errors import RequestError
from hybridspec.policy.profile import Profile

CLOSE = 5.0  # percent
HEAD = (
    "                                   tokens a second      deviation               ms a round\n"
    "system                        predicted  measured            to ar  predicted  measured  "
    "policy  answers\n"
)


def run(
    work: Path, profile: Profile, folder: Path, systems: Sequence[str], out: Path | None,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Compare replay with a bench, print a table and a line of JSON, and write the latter to `out`.

    systems: those to compare; none: all of the bench that the profile prices.

    Raises:
        RequestError: traces, profile and bench do not belong together.
    """
    check_pair(work, profile)
    bench = agreement.read_bench(folder)
    agreement.check_comparable(bench, capture_facts(work), profile)
    trace = load_trace(work)
    check_shape(trace, profile)
    names = agreement.captured_names(work, trace)
    ran = list(bench.setup["systems"])
    chosen = list(systems) or [name for name in ran if has_costs(name, profile, trace)]
    if not chosen:
        raise RequestError(
            f"The profile prices no system of the bench ({_listed(ran)}). Calibrate with their "
            "verifiers, or run `bench speed` with other --systems."
        )
    every = agreement.rows(trace, names, profile, bench, chosen)
    say(_place(bench, profile) + HEAD)
    for row in every:
        say(_line(row))
    close = [row["system"] for row in every if abs(row["deviation_percent"]) <= CLOSE]
    near = [row["system"] for row in every if abs(row["deviation_percent_to_ar"] or 99) <= CLOSE]
    say(
        f"Off by at most {CLOSE:g}%: {_listed(close)}. Relative to ar, which takes out how fast "
        f"the machine was: {_listed(near)}.\n"
    )
    document = json.dumps({"bench": "replay", "against": str(folder), "rows": every})
    if out is not None:
        write_atomically(out, document + "\n")
    say(document + "\n")


def _line(row: dict[str, Any]) -> str:
    relative = row["deviation_percent_to_ar"]
    to_ar = "-" if relative is None else f"{relative:+.1f}%"
    differ = f" ({row['answers_left_out']} differ)" if row["answers_left_out"] else ""
    return (
        f"{row['system']:28s} {row['predicted_tokens_per_second']:10.1f} "
        f"{row['measured_tokens_per_second']:9.1f} {row['deviation_percent']:+7.1f}% {to_ar:>8s} "
        f"{row['predicted_ms_per_round']:10.2f} {row['measured_ms_per_round']:9.2f} "
        f"{row['policy_ms_per_round']:7.3f} {row['answers']:8d}{differ}\n"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _place(bench: agreement.Bench, profile: Profile) -> str:
    """A line where the bench ran elsewhere than the calibration."""
    facts = {n: (str(bench.setup.get(n)), profile.runtime.get(n)) for n in ("cpu", "threads")}
    other = [f"{n} {a} against {b}" for n, (a, b) in facts.items() if b is not None and a != b]
    return f"The bench ran elsewhere than the calibration: {'; '.join(other)}.\n" if other else ""
