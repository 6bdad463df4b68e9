"""SGLang beside ours, from a document that has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridspec.bench.scripted.against import said_of_u
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table, number


def peer_rounds(documents: Sequence[Document]) -> Table | None:
    """A mode's round against each of our systems of the same length, in every run that has it."""
    rows, notes = [], []
    for document in documents:
        if "against" not in document:
            continue
        modes, found = document["sglang"]["modes"], document["against"]["modes"]
        for mode, body in found.items():
            u, started = body["distinct"], modes[mode]["startup_s"]
            for name, f in body["rounds"].items() or [(MISSING, None)]:
                rows.append((
                    mode, number(u["sglang"], ".1f"), number(u["ours"], ".1f"),
                    number(started, ".0f"), f"{body['ms_per_round']:.3f}", name,
                    number(f and f["ms_per_round"], ".3f"), number(f and f["times_as_fast"], ".2f"),
                ))  # fmt: skip
        notes += [f"{mode}: {said_of_u(body)}" for mode, body in found.items() if mode != "ar"]
        notes += [_drift(document)]
    header = ("SGLang", "its U", "our U", "start, s", "its ms a round", "our system", "our ms",
              "times as fast")  # fmt: skip
    note = " ".join(["U: distinct experts a layer.", *filter(None, notes)])
    return Table("A round against SGLang 0.5.16's", header, tuple(rows), note) if rows else None


def peer_tokens(documents: Sequence[Document]) -> Table | None:
    """Tokens a second of ours over SGLang's at the same acceptance; a column a run and mode."""
    found = [
        (mode, body["distinct"]["sglang"], body["tokens_per_second"])
        for document in documents
        for mode, body in document.get("against", {}).get("modes", {}).items()
        if "tokens_per_second" in body
    ]
    if not found:
        return None
    modes = [mode for mode, _, _ in found]
    header = [mode if modes.count(mode) == 1 else f"{mode}, U = {number(u, '.1f')}"
              for mode, u, _ in found]  # fmt: skip
    rows = [("SGLang, tokens/s", *(f"{t['mean']:.0f}" for _, _, t in found))]
    rows += [
        (name, *(_over(t["ours_over_it"].get(name)) for _, _, t in found))
        for name in documents[0]["systems"]
    ]
    note = (
        "Mean over categories (least of a category). SGLang's weights are random, so its tokens a "
        "second are the acceptance of our system of the same length, on the same traces, over its "
        "time a round."
    )
    return Table("Tokens a second over SGLang's", ("ours over", *header), tuple(rows), note)


def _over(f: Mapping[str, Any] | None) -> str:
    return f"{f['mean']:.2f} ({f['least']:.2f})" if f else MISSING


def _drift(document: Document) -> str:
    drift = document["against"]["drift"]
    if not drift:
        return ""
    each = ", ".join(f"{name} {f['ms_per_round']:.3f}" for name, f in drift.items())
    return f"Our run after SGLang over the one before, ms a round: {each}."
