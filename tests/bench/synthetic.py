"""Results of a whole bench with figures from a seeded generator, without any model."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.bench_records import record
from hybridspec.bench.equality import Difference
from hybridspec.bench.journal import Journal
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.prompts import Prompt
from hybridspec.bench.records import Key, Record, TimedRound
from hybridspec.bench.results import assemble
from hybridspec.bench.setup import Plan

SETUP = {
    "cpu": "A processor",
    "cores": 4,
    "threads": 2,
    "torch": "2.13",
    "hybridspec": "0.1.0",
    "model": "embedded pair",
    "prompt_form": "chat",
    "max_tokens": 41,
}
RUN = {
    "date": "2026-01-01T00:00:00+00:00",
    "load_average": 0.1,
    "commit": None,
    "device": "cpu",
    "dtype": "float32",
    "warmup_generations": 8,
    "warmup_tokens": 41,
}


def synthetic_plan(
    out: Path, systems: tuple[str, ...], categories: tuple[str, ...], each: int, repeats: int = 1
) -> Plan:
    """A plan of `each` prompts a category."""
    prompts = tuple(Prompt(f"{c}-{i}", c, "text") for c in categories for i in range(each))
    options = SpeedOptions(out=out, systems=systems, repeats=repeats).settled("cpu")
    return Plan(options, prompts, Path("target"), Path("drafter"), 16, True, dict(SETUP))


def synthetic_journal(plan: Plan, seed: int = 0) -> Journal:
    """40 decode tokens a generation; rounds of 10 + w ms; drafts accepted 3 times of 4.

    A round verifies all drafts but two, of which one is judged and none would have been accepted.
    """
    journal = Journal(plan.options.out, plan.setup)
    journal.add_run(RUN)
    categories = {p.id: p.category for p in plan.prompts}
    generator = random.Random(seed)
    for key in plan.schedule:
        journal.add(_record(key, categories[key.prompt], generator))
    return journal


def synthetic_results(
    out: Path,
    systems: tuple[str, ...] = ("ar", "static:5", "dflash"),
    categories: tuple[str, ...] = ("coding", "math", "rag"),
    each: int = 3,
    repeats: int = 1,
    found: tuple[Difference, ...] = (),
) -> dict[str, Any]:
    """What the bench would write for it."""
    plan = synthetic_plan(out, systems, categories, each, repeats)
    return assemble(plan, synthetic_journal(plan), found)


def _record(key: Key, category: str, generator: random.Random) -> Record:
    longest = {"ar": 1, "dflash": 16, "length16": 16}.get(key.system)
    if longest is None:
        named = [*key.system.split(":"), ""][1]
        longest = int(named) if named.isdecimal() else 7
    rounds: list[tuple[int, int]] = []
    while (left := 40 - sum(a + 1 for _, a in rounds)) > 0:
        w = min(longest, left)
        hits = [generator.random() < 0.75 for _ in range(w - 1)]
        rounds.append((w, [*hits, False].index(False)))
    timed = tuple(TimedRound(w, a, a + 1, 0.010 + 0.001 * w, w + 1, 1, 0) for w, a in rounds)
    plain = record(
        *(key.prompt, key.system, key.repeat),
        tokens=range(41),
        seconds=sum(r.seconds for r in timed),
        category=category,
    )
    return replace(plain, rounds=timed)
