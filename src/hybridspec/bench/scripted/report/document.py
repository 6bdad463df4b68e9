"""All tables of one run, and of others beside it, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybridspec.bench import markdown
from hybridspec.bench.scripted.paper import CORRELATED
from hybridspec.bench.scripted.report.compared import launchers, verifiers
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.scripted.report.goals import goals
from hybridspec.bench.scripted.report.memory import buffers, cacheable
from hybridspec.bench.scripted.report.peer import peer_rounds, peer_tokens
from hybridspec.bench.scripted.report.systems import components, main_table, rounds
from hybridspec.bench.scripted.report.times import lengths, passes
from hybridspec.bench.tables import Table


def report(documents: Sequence[Document], kernels: Document | None = None) -> str:
    """Markdown. documents: of runs, the main one first; kernels: of the kernels' bench."""
    return "\n\n".join([about(documents[0]), *map(markdown.table, tables(documents, kernels))])


def tables(documents: Sequence[Document], kernels: Document | None) -> Iterator[Table]:
    """Those that have something to say."""
    first = documents[0]
    made = (
        goals(documents), main_table(first), rounds(first), components(first), peer_rounds(first),
        peer_tokens(first), verifiers(documents), launchers(documents), lengths(first),
        passes(kernels), buffers(first), cacheable(first),
    )  # fmt: skip
    yield from (table for table in made if table is not None)


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
