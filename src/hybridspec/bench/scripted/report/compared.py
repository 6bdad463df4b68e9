"""Verifiers against each other, and launchers: systems that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table

VERIFIERS = ("exact", "block", "per-token", "replay")
# Systems whose names do not say what they verify with, as lengths and verifier.
NAMED = {
    "length16": ("static:16", "exact"), "dflash": ("static:16", "per-token"),
    "replayssm": ("static:16", "replay"), "dcut": ("dcut", "per-token"),
    "evict": ("evict", "per-token"), "evict+replayssm": ("evict", "replay"),
}  # fmt: skip
CELLS = "ms a round (tokens/s), means over the categories that all runs have."
Rates = dict[str, tuple[float, float]]  # ms a round and tokens a second, by what differs


def parts(system: str) -> tuple[str, str]:
    """Where lengths come from, and the verifier: `static:4`, `block` of `static:4:block`."""
    rest, _, last = system.rpartition(":")
    return (rest, last) if last in VERIFIERS else NAMED.get(system, (system, "exact"))


def verifiers(documents: Sequence[Document]) -> Table | None:
    """Rows of lengths and launcher, a column a verifier; None where none has two."""
    rates: dict[tuple[str, str], Rates] = {}
    for executor, systems in _systems(documents).items():
        for name, found in systems.items():
            policy, verifier = parts(name)
            rates.setdefault((policy, executor), {})[verifier] = found
    rows = [
        (policy, executor, *_cells(found, VERIFIERS), _slower(found))
        for (policy, executor), found in rates.items() if len(found) > 1
    ]  # fmt: skip
    note = (
        f"{CELLS} Last: how many more tokens a second the fastest other verifier gives than exact; "
        "where a policy chooses lengths by its verifier's costs, rounds differ too."
    )
    header = ("lengths", "launcher", *VERIFIERS, "fastest other over exact")
    return Table("Verifiers against each other", header, tuple(rows), note) if rows else None


def launchers(documents: Sequence[Document]) -> Table | None:
    """A row a system, a column a launcher; None where there is one launcher."""
    by_launcher = _systems(documents)
    names = dict.fromkeys(name for systems in by_launcher.values() for name in systems)
    rows = []
    for name in names:
        rates = {e: systems[name] for e, systems in by_launcher.items() if name in systems}
        if len(rates) > 1:
            fastest = max(rates, key=lambda executor: rates[executor][1])
            rows.append((name, *_cells(rates, [*by_launcher]), fastest))
    header = ("system", *by_launcher, "fastest")
    return Table("Launchers against each other", header, tuple(rows), CELLS) if rows else None


def exact_slower(documents: Sequence[Document]) -> float | None:
    """The most that another verifier gains over `exact` at fixed lengths, as a part."""
    worst = None
    for systems in _systems(documents).values():
        found: dict[str, dict[str, float]] = {}
        for name, (_, rate) in systems.items():
            policy, verifier = parts(name)
            found.setdefault(policy, {})[verifier] = rate
        for policy, rates in found.items():
            others = [rate for verifier, rate in rates.items() if verifier != "exact"]
            if policy.startswith("static:") and "exact" in rates and others:
                more = max(others) / rates["exact"] - 1
                worst = more if worst is None else max(worst, more)
    return worst


def _systems(documents: Sequence[Document]) -> dict[str, Rates]:
    """ms a round and tokens a second by launcher and system, over the categories of all runs; of a
    system that two runs of a launcher have, the first's."""
    shared = [
        c for c in documents[0]["systems"]["ar"]["categories"]
        if all(c in document["systems"]["ar"]["categories"] for document in documents)
    ]  # fmt: skip
    made: dict[str, Rates] = {}
    for document in documents if shared else documents[:0]:
        systems = made.setdefault(document["executor"], {})
        for name, body in document["systems"].items():
            systems.setdefault(name, _means(body["categories"], shared))
    return made


def _means(categories: Mapping[str, Any], shared: Sequence[str]) -> tuple[float, float]:
    ms, rate = (
        fmean(categories[c][key] for c in shared) for key in ("ms_per_round", "tokens_per_second")
    )
    return ms, rate


def _cells(rates: Rates, columns: Sequence[str]) -> list[str]:
    found = (rates.get(column) for column in columns)
    return [f"{f[0]:.3f} ({f[1]:.0f})" if f else MISSING for f in found]


def _slower(rates: Rates) -> str:
    exact = rates.get("exact")
    others = [rate for verifier, (_, rate) in rates.items() if verifier != "exact"]
    return f"{100 * (max(others) / exact[1] - 1):+.1f}%" if exact and others else MISSING
