"""SGLang beside ours, from a document that has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hybridspec.bench.scripted.against import said_of_u
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table, number


def peer_rounds(documents: Sequence[Document]) -> Table | None:
    """A mode's round against each of our systems of the same length, in every run that has it."""
    rows, notes = [], []
    for run, document in _with_peer(documents):
        modes, found = document["sglang"]["modes"], document["against"]["modes"]
        for mode, body in found.items():
            u, started = body["distinct"], modes[mode]["startup_s"]
            for name, f in body["rounds"].items() or [(MISSING, None)]:
                rows.append((
                    mode + run, number(u["sglang"], ".1f"), number(u["ours"], ".1f"),
                    number(started, ".0f"), f"{body['ms_per_round']:.3f}", name,
                    number(f and f["ms_per_round"], ".3f"), number(f and f["times_as_fast"], ".2f"),
                ))  # fmt: skip
        notes += [f"{mode}{run}: {said_of_u(b)}" for mode, b in found.items() if mode != "ar"]
        notes += [_drift(document)]
    header = ("SGLang", "its U", "our U", "start, s", "its ms a round", "our system", "our ms",
              "times as fast")  # fmt: skip
    note = " ".join(["U: distinct experts a layer.", *filter(None, notes)])
    return Table("A round against SGLang 0.5.16's", header, tuple(rows), note) if rows else None


def peer_tokens(documents: Sequence[Document]) -> Table | None:
    """Tokens a second of ours over SGLang's at the same acceptance; a column a run and mode."""
    tokens = {
        mode + run: body["tokens_per_second"]
        for run, document in _with_peer(documents)
        for mode, body in document["against"]["modes"].items() if "tokens_per_second" in body
    }  # fmt: skip
    if not tokens:
        return None
    rows = [("SGLang, tokens/s", *(f"{t['mean']:.0f}" for t in tokens.values()))]
    names = dict.fromkeys(name for d in documents for name in d["systems"])
    rows += [
        (name, *(_over(t["ours_over_it"].get(name)) for t in tokens.values())) for name in names
    ]
    note = (
        "Mean over categories (least of a category). SGLang's weights are random, so its tokens a "
        "second are the acceptance of our system of the same length, on the same traces, over its "
        "time a round."
    )
    return Table("Tokens a second over SGLang's", ("ours over", *tokens), tuple(rows), note)


def _with_peer(documents: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Runs that have SGLang beside them, and what to call them: nothing for the first."""
    for place, document in enumerate(documents, 1):
        if "against" in document:
            yield f", run {place}" if place > 1 else "", document


def _over(f: Mapping[str, Any] | None) -> str:
    return f"{f['mean']:.2f} ({f['least']:.2f})" if f else MISSING


def _drift(document: Document) -> str:
    drift = document["against"]["drift"]
    if not drift:
        return ""
    each = ", ".join(f"{name} {f['ms_per_round']:.3f}" for name, f in drift.items())
    return f"Our run after SGLang over the one before, ms a round: {each}."
