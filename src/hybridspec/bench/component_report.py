"""What `bench profile` prints: the paper's Table 4, growth and fits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hybridspec.bench.component_fits import COMPONENTS, typical
from hybridspec.bench.tables import MISSING, Table, number, plain

NAMES = {
    "target": "target",
    "gdn": "GDN",
    "moe": "MoE",
    "attention": "attention",
    "other": "other",
    "drafter": "drafter",
}


def report(document: Mapping[str, Any]) -> str:
    """All of it as text, ending with a line break."""
    said = (
        *_growth(document),
        *_fits(document),
        *_proxy(document),
        *_pairs(document),
        _overhead(document),
    )
    return "\n".join([plain(table(document)), "", *said]) + "\n"


def table(document: Mapping[str, Any]) -> Table:
    """Median ms by length, component by component; the drafter and the experts beside."""
    header = ("w", "calls", "target", *(NAMES[c] for c in COMPONENTS))
    rows = tuple(_cells(row) for row in document["lengths"])
    return Table(
        f"Time of a verification call (ms, median), GDN verifier {document['setup']['verifier']}",
        (*header, "quartiles", "drafter", "target/drafter", "pairs"),
        rows,
        "quartiles: of the target; drafter: a call for w - 1 drafts; pairs: mean distinct (layer, "
        "expert) pairs.\nOn a busy machine the components' medians do not add up to the target's.",
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    parts = [f"{typical(row, part):.3f}" for part in ("target", *COMPONENTS)]
    low, high = (row["target_ms"][end] for end in ("low", "high"))
    drafter = row["drafter_ms"]
    return (
        *(str(row["w"]), str(row["calls"]), *parts, f"{low:.3f}-{high:.3f}"),
        number(drafter and drafter["median"], ".3f"),
        number(row["target_to_drafter"], ".1f"),
        f"{row['distinct_pairs']:.1f}",
    )


def _growth(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["growth"]
    if found is not None:
        shares = ", ".join(f"{NAMES[part]} {_share(found[part])}" for part in NAMES)
        yield f"From w = {found['from']} to {found['to']}: {shares}."


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{100 * value:+.1f}%"


def _fits(document: Mapping[str, Any]) -> Iterator[str]:
    for fit in document["fits"]:
        gdn, moe = fit["gdn"], fit["moe"]
        said = []
        if gdn:
            sign = "+-"[gdn["b"] < 0]
            said.append(f"GDN {gdn['a']:.3g} {sign} {abs(gdn['b']):.3g} w ms (R2 {gdn['r2']:.3f})")
        if moe:
            said.append(f"MoE {moe['c']:.3g} w^{moe['d']:.3f} ms (R2 of logs {moe['r2']:.3f})")
        if said:
            yield f"Fits over w = {', '.join(map(str, fit['lengths']))}: {'; '.join(said)}."


def _proxy(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["layer0_proxy"]
    if found is not None:
        yield (
            "New layer-0 experts of a draft as a proxy of its new pairs in later layers: "
            f"correlation {found['correlation']:.2f}, {found['slope']:.1f} pairs an expert "
            f"({found['tokens']} drafts, each position's mean taken out)."
        )


def _pairs(document: Mapping[str, Any]) -> Iterator[str]:
    found = document["latency_of_pairs"]
    if found is not None:
        yield (
            f"Time of a call at w = {found['w']} against its distinct pairs: correlation "
            f"{found['correlation']:.3f} ({found['calls']} calls)."
        )


def _overhead(document: Mapping[str, Any]) -> str:
    return (
        f"Telling components apart lengthens a call by {_share(document['overhead'])} (median of "
        "calls timed both ways)."
    )
