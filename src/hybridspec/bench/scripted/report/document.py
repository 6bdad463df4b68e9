"""All tables of one run, and of others beside it, in order."""

from __future__ import annotations

from collections.abc import Iterator

from hybridspec.bench import markdown
from hybridspec.bench.scripted.clocks.tables import TABLES
from hybridspec.bench.scripted.paper import CORRELATED
from hybridspec.bench.scripted.report.compared import launchers, verifiers
from hybridspec.bench.scripted.report.files import Document, Measured
from hybridspec.bench.scripted.report.goals import goals
from hybridspec.bench.scripted.report.memory import buffers, cacheable
from hybridspec.bench.scripted.report.peer import peer_rounds, peer_tokens
from hybridspec.bench.scripted.report.systems import (
    components,
    main_table,
    numbered,
    rounds,
    settings,
)
from hybridspec.bench.scripted.report.times import lengths, passes
from hybridspec.bench.small import warned
from hybridspec.bench.tables import Table


def report(measured: Measured) -> str:
    """Markdown."""
    text = "\n\n".join([about(measured.runs[0]), *map(markdown.table, tables(measured))])
    for document in (*measured.runs, *measured.others, measured.kernels, measured.clocks):
        if (said := warned(document, text)) != text:
            return said
    return text


def tables(measured: Measured) -> Iterator[Table]:
    """Those that have something to say."""
    runs, kernels, clocks, memory, others = measured
    first = runs[0]
    ledger = first["memory"].get("ledger", memory)
    made = (
        goals(runs, clocks), numbered([*runs, *others]), main_table(first), rounds(first),
        components(first), settings(runs, others), peer_rounds([*runs, *others]),
        peer_tokens([*runs, *others]), verifiers(runs), launchers(runs), *clocked(clocks),
        lengths(first), passes(kernels), buffers(ledger), cacheable(ledger),
    )  # fmt: skip
    yield from (table for table in made if table is not None)


def clocked(clocks: Document | None) -> Iterator[Table]:
    """What the clocks of rounds have found."""
    parts = (clocks or {}).get("parts", {})
    yield from (made(parts[name]) for name, made in TABLES.items() if name in parts)


def about(document: Document) -> str:
    """On what, with what and how it was measured."""
    machine, run, facts = document["machine"], document["run"], document["facts"]
    where = [machine.get("gpu") or machine["cpu"]]
    where += [f"{name} {machine[key]}" for name, key in NAMES.items() if machine.get(key)]
    commit = (run["commit"] or "unknown")[:9]
    u = " / ".join(f"{n:.1f}" for n in facts["distinct"].values())
    at = " / ".join(facts["distinct"])
    answers = document["answers"]
    low, high = CORRELATED
    inside = low <= facts["correlation"] <= high
    return (
        f"{', '.join(where)}; commit {commit}, {run['date'][:10]}. Launcher "
        f"{document['executor']}; {answers} answer{'s' * (answers > 1)} of {document['tokens']} "
        f"tokens a category behind {document['context']} of context; acceptance of "
        f"{document['pair']}; routing {document['routing']}: U = {u} at w = {at}, layer 0 against "
        f"later layers {facts['correlation']:.2f} "
        f"({'within' if inside else 'outside'} {low} to {high}). Every token was the known one, "
        "every final state that of `ar`, and a wrong commit was found out."
    )


NAMES = {"torch": "torch", "driver": "driver", "power limit": "power_limit"}
