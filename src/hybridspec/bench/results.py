"""The results as one JSON document: set-up, runs, figures by system and category, equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hybridspec.bench.equality import Difference, compared
from hybridspec.bench.figures import Figures, costs, figures
from hybridspec.bench.files import SCHEMA
from hybridspec.bench.journal import Journal
from hybridspec.bench.records import Record
from hybridspec.bench.setup import Plan

COUNTING = (
    "w counts target inputs of a round, the anchor included; acceptance counts accepted drafts; "
    "the acceptance length is what a round emits, one more. Tokens per second: decode tokens (all "
    "but each answer's first) over decode seconds, pooled. Speed-ups: over the baseline's pooled "
    "speed, with 95% paired bootstrap intervals over prompts. Round times include drafting. "
    "The first answer of the baseline to a prompt is the reference of the other answers."
)


def assemble(plan: Plan, journal: Journal, found: Sequence[Difference]) -> dict[str, Any]:
    """Everything that DIR/speed.json says.

    Args:
        plan: what was to run.
        journal: what did run.
        found: answers that differ from the reference.
    """
    keys = plan.schedule
    records = [journal.records[key] for key in keys if key in journal.records]
    baseline = plan.options.baseline
    return {
        "schema": SCHEMA,
        "complete": len(records) == len(keys),
        "counting": COUNTING,
        "setup": journal.setup,
        "block_size": plan.block_size,
        "repeats": plan.options.repeats,
        "runs": journal.runs,
        "startup": journal.startup,
        "baseline": baseline,
        "prompts": _prompt_counts(plan),
        "systems": {
            name: _system(name, records, baseline, plan.block_size) for name in plan.options.systems
        },
        "round_costs": [asdict(c) for c in sorted(costs(records), key=lambda c: (c.system, c.w))],
        "equality": {
            "reference": f"{baseline}, first repeat",
            "answers": len(records),
            "compared": compared({r.key: r for r in records}, baseline),
            "different": len(found),
            "differences": [asdict(d) for d in found],
        },
    }


def _prompt_counts(plan: Plan) -> dict[str, int]:
    """Prompts by category, in the file's order of categories."""
    counts: dict[str, int] = {}
    for prompt in plan.prompts:
        counts[prompt.category] = counts.get(prompt.category, 0) + 1
    return counts


def _system(name: str, records: Sequence[Record], baseline: str, block_size: int) -> dict[str, Any]:
    """Figures over all prompts, and by category."""
    ours = [r for r in records if r.key.system == name]
    theirs = [r for r in records if r.key.system == baseline]

    def within(category: str) -> Figures:
        return figures(
            [r for r in ours if r.category == category],
            [r for r in theirs if r.category == category],
            block_size,
        )

    categories = list(dict.fromkeys(r.category for r in ours))
    return {
        **asdict(figures(ours, theirs, block_size)),
        "categories": {category: asdict(within(category)) for category in categories},
    }


def summary(results: dict[str, Any], path: str) -> dict[str, Any]:
    """The last line on stdout: the main figures and where the rest is.

    `equal` and `fastest` are null where there was nothing to compare.
    """
    systems = results["systems"]
    speeds = {name: s["tokens_per_second"] for name, s in systems.items()}
    equality, fastest = results["equality"], None
    if len(systems) > 1:
        fastest = max(speeds, key=lambda name: speeds[name]["median"] if speeds[name] else 0.0)
    return {
        "bench": "speed",
        "results": path,
        "complete": results["complete"],
        "equal": equality["different"] == 0 if equality["compared"] else None,
        "baseline": results["baseline"],
        "fastest": fastest,
        "tokens_per_second": {name: s and s["median"] for name, s in speeds.items()},
        "speedup": {name: s["speedup"] and s["speedup"]["value"] for name, s in systems.items()},
        "mean_acceptance_length": {n: s["mean_acceptance_length"] for n, s in systems.items()},
        "startup": results["startup"],
    }
