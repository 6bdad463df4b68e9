"""Rounds and passes by length."""

from __future__ import annotations

from hybridspec.bench.scripted.report.files import Document
from hybridspec.bench.tables import Table

PASS = "target pass, w = "


def lengths(document: Document) -> Table | None:
    """Whole rounds at every length as calibration timed them, a row a verifier."""
    costs = document["profile"]["cost"]
    shown = [w for w in ("2", "3", "4", "6", "8", "12", "16")
             if all(w in cost["ms"] for cost in costs.values())]  # fmt: skip
    if not shown:
        return None
    rows = tuple(
        (
            name.partition("/")[0],
            f"{cost['plain_ms']:.3f}",
            *(f"{cost['ms'][w]:.3f}" for w in shown),
        )
        for name, cost in costs.items()
    )
    call = document["profile"]["draft_ms"][-1]
    note = (
        f"Calibration's, with the drafting of a whole block ({call:.3f} ms a call behind the "
        "prompt); 1: a plain step. An answer's last rounds, which are shorter, are in them."
    )
    title = "Whole rounds by length, ms"
    return Table(title, ("verifier", "1", *shown), rows, note)


def passes(kernels: Document | None) -> Table | None:
    """The target's passes alone, from the kernels' bench."""
    timed = [r for r in (kernels or {}).get("records", []) if r["name"].startswith(PASS)]
    if not kernels or not timed:
        return None
    rows = tuple(
        (
            r["name"].removeprefix(PASS), f"{r['distinct']:.1f}", f"{r['us'] / 1e3:.3f}",
            f"{r['floor_us'] / 1e3:.3f}", f"{r['floor_us'] / r['us']:.2f}",
        )
        for r in timed
    )  # fmt: skip
    note = (
        "Random weights, skewed routing, commit included; floor: bytes at 4.28 TB/s. From "
        f"kernels.json, commit {(kernels['run']['commit'] or 'unknown')[:9]}."
    )
    return Table("A pass of the target alone", ("w", "U", "ms", "floor", "floor / ms"), rows, note)
