"""SGLang beside ours, from a document that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridspec.bench.scripted.against import said_of_u
from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import MISSING, Table, number


def peer_rounds(document: Document) -> Table | None:
    """A mode's round against each of our systems of the same length."""
    if "against" not in document:
        return None
    modes, found = document["sglang"]["modes"], document["against"]["modes"]
    rows = []
    for mode, body in found.items():
        u, started = body["distinct"], modes[mode]["startup_s"]
        ours = body["rounds"].items() or [(MISSING, None)]
        for name, f in ours:
            rows.append((
                mode, number(u["sglang"], ".1f"), number(u["ours"], ".1f"), number(started, ".0f"),
                f"{body['ms_per_round']:.3f}", name, number(f and f["ms_per_round"], ".3f"),
                number(f and f["times_as_fast"], ".2f"),
            ))  # fmt: skip
    header = ("SGLang", "its U", "our U", "start, s", "its ms a round", "our system", "our ms",
              "times as fast")  # fmt: skip
    told = " ".join(f"{mode}: {said_of_u(body)}" for mode, body in found.items() if mode != "ar")
    note = f"U: distinct experts a layer. {told} {_drift(document)}".strip()
    return Table("A round against SGLang 0.5.16's", header, tuple(rows), note)


def peer_tokens(document: Document) -> Table | None:
    """Tokens a second of ours over SGLang's at the same acceptance."""
    found = document.get("against", {}).get("modes", {})
    tokens = {m: body["tokens_per_second"] for m, body in found.items()
              if "tokens_per_second" in body}  # fmt: skip
    if not tokens:
        return None
    rows = [("SGLang, tokens/s", *(f"{t['mean']:.0f}" for t in tokens.values()))]
    rows += [
        (name, *(_over(t["ours_over_it"][name]) for t in tokens.values()))
        for name in document["systems"]
    ]
    note = (
        "Mean over categories (least of a category). SGLang's weights are random, so its tokens a "
        "second are the acceptance of our system of the same length, on the same traces, over its "
        "time a round."
    )
    return Table("Tokens a second over SGLang's", ("ours over", *tokens), tuple(rows), note)


def _over(f: Mapping[str, Any]) -> str:
    return f"{f['mean']:.2f} ({f['least']:.2f})"


def _drift(document: Document) -> str:
    drift = document["against"]["drift"]
    if not drift:
        return ""
    each = ", ".join(f"{name} {f['ms_per_round']:.3f}" for name, f in drift.items())
    return f"Our run after SGLang over the one before, ms a round: {each}."
