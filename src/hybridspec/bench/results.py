"""The results as one JSON document: set-up, runs, figures by system and category, equality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hybridspec.bench.averages import Averages, gain, mean_of, mean_speedup
from hybridspec.bench.equality import Difference, compared
from hybridspec.bench.figures import Figures, costs, figures
from hybridspec.bench.files import SCHEMA
from hybridspec.bench.journal import Journal
from hybridspec.bench.options import ABLATION, WHOLE
from hybridspec.bench.records import Record
from hybridspec.bench.setup import Plan
from hybridspec.bench.turns import comparable

WHOLE_BLOCK = ("dflash", "length16", "replayssm")  # they verify every draft; the first that ran

COUNTING = (
    "w counts target inputs of a round, the anchor included; acceptance counts accepted drafts; "
    "the acceptance length is what a round emits, one more. Tokens per second: decode tokens (all "
    "but each answer's first) over decode seconds, pooled. Speed-ups: over the baseline's pooled "
    "speed, with 95% paired bootstrap intervals over prompts. Round times include drafting. "
    "The first answer of the baseline to a prompt is the reference of the other answers. Averages: "
    "arithmetic means over categories, whose intervals resample prompts within each. Unverified: "
    "drafts that a round proposed and did not verify; missed: those of them that, with all before "
    "them, are what the answer goes on with. Drafts beyond the end of an answer are left out of "
    "judged and missed. al_gap_share: the paper's (section 4.2), average acceptance length of the "
    "system that verifies the whole block less that of this one, over the block size less the "
    "average w."
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
    flat = comparable({r.key: r for r in records}, baseline)
    systems = {
        name: _system(name, records, baseline, plan.block_size) for name in plan.options.systems
    }
    _add_gaps(systems, plan.block_size)
    return {
        "schema": SCHEMA,
        "complete": len(records) == len(keys),
        "counting": COUNTING,
        "setup": journal.setup,
        "block_size": plan.block_size,
        "repeats": plan.repeats,
        "fresh_processes": bool(plan.options.processes),
        "runs": journal.runs,
        "startup": journal.startup,
        "baseline": baseline,
        "prompts": _prompt_counts(plan),
        "context": plan.context,
        "skipped": [asdict(s) for s in plan.skipped],
        "systems": systems,
        "ablation": ablation(records, systems) if plan.options.ablation else None,
        "round_costs": [asdict(c) for c in sorted(costs(records), key=lambda c: (c.system, c.w))],
        "equality": {
            "reference": f"{baseline}, first repeat",
            "answers": len(records),
            "compared": compared(flat, baseline),
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
    parts = {category: within(category) for category in categories}
    averages = Averages(
        acceptance_length=mean_of(f.mean_acceptance_length for f in parts.values()),
        verification_length=mean_of(f.mean_verification_length for f in parts.values()),
        unverified=mean_of(f.unverified_per_round for f in parts.values()),
        speedup=mean_speedup(ours, theirs),
    )
    return {
        **asdict(figures(ours, theirs, block_size)),
        "averages": asdict(averages),
        "categories": {category: asdict(part) for category, part in parts.items()},
    }


def _add_gaps(systems: dict[str, dict[str, Any]], block_size: int) -> None:
    """The paper's share of unverified drafts, where a system that verifies all of them ran too."""
    whole = next((systems[name] for name in WHOLE_BLOCK if name in systems), None)
    for s in systems.values():
        s["al_gap_share"] = None if whole is None else _gap_share(s, whole, block_size)


def _gap_share(s: dict[str, Any], whole: dict[str, Any], block_size: int) -> float | None:
    lengths = [x["averages"]["acceptance_length"] for x in (whole, s)]
    w = s["averages"]["verification_length"]
    if s is whole or w is None or None in lengths or not 1 < w < block_size:
        return None
    return float((lengths[0] - lengths[1]) / (block_size - w))


def ablation(records: Sequence[Record], systems: dict[str, Any]) -> list[dict[str, Any]]:
    """The paper's Table 3: what hybridspec gains by each of its parts."""

    def of(name: str) -> list[Record]:
        return [r for r in records if r.key.system == name]

    rows = []
    for name, component in ABLATION.items():
        found, averages = gain(of(WHOLE), of(name), of("ar")), systems[name]["averages"]
        rows.append(
            {
                "component": component,
                "replaced_by": name,
                "w": averages["verification_length"],
                "acceptance_length": averages["acceptance_length"],
                "speedup": averages["speedup"],
                "gain": asdict(found) if found else None,
            }
        )
    return rows


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
        "averages": {
            name: {
                "acceptance_length": s["averages"]["acceptance_length"],
                "speedup": s["averages"]["speedup"] and s["averages"]["speedup"]["value"],
            }
            for name, s in systems.items()
        },
        "skipped": len(results["skipped"]),
        "startup": results["startup"],
    }
