"""From times by component to the figures and fits of the paper's Table 4 and appendix D.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import exp, log
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridspec.calibration.cost import fit_line
from hybridspec.calibration.proxy import layer0_proxy

if TYPE_CHECKING:
    from hybridspec.bench.component_times import Samples

OTHER = "other"  # embedding, norms, head, and what no component claims
COMPONENTS = ("gdn", "moe", "attention", OTHER)
PAPER_FROM, PAPER_TO = 4, 16  # the paper's shortest and longest length
# Fits see the lengths from 2 (w = 1 is plain decoding, which runs other calls) and, as the paper's,
# those from 4.
FIT_FROM = (2, PAPER_FROM)
FEWEST = 3  # lengths, for two parameters
Row = dict[str, Any]


def rows(samples: Samples) -> list[Row]:
    """One row a length: ms of the target, its components and the drafter, and what goes with them.

    `overhead` is the share by which the wrappers that tell components apart lengthen a call: the
    median over positions, each of which timed both.
    """
    return [_row(w, samples) for w in sorted(samples.components)]


def _row(w: int, samples: Samples) -> Row:
    split, whole = samples.components[w], samples.whole[w]
    totals = [sum(each.values()) for each in split]
    target, drafter = spread(totals), spread(samples.drafter[w]) if samples.drafter[w] else None
    return {
        "w": w,
        "calls": len(split),
        "target_ms": target,
        "components_ms": {name: spread([each[name] for each in split]) for name in COMPONENTS},
        "drafter_ms": drafter,
        "target_to_drafter": None if drafter is None else target["median"] / drafter["median"],
        "distinct_pairs": round(fmean(samples.pairs[w]), 3),
        "whole_ms": spread(whole),
        "overhead": median(a / b for a, b in zip(totals, whole, strict=True)) - 1,
    }


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, quartiles and mean."""
    low, middle, high = np.percentile(values, (25, 50, 75)).tolist()
    named = {"median": middle, "low": low, "high": high, "mean": fmean(values)}
    return {name: round(value, 6) for name, value in named.items()}  # to a nanosecond


def fits(table: Sequence[Row]) -> list[dict[str, Any]]:
    """The paper's two fits to medians, over the lengths from 2 and from 4, where there are three.

    `gdn`: ms = a + b w by ordinary least squares. `moe`: ms = c w^d, a line in logarithms, with r2
    in logarithms too.
    """
    done: dict[tuple[int, ...], dict[str, Any]] = {}
    for least in FIT_FROM:
        kept = [row for row in table if row["w"] >= least]
        if len(kept) >= FEWEST:
            done.setdefault(tuple(row["w"] for row in kept), _fit(kept))
    return list(done.values())


def _fit(table: Sequence[Row]) -> dict[str, Any]:
    w = np.array([row["w"] for row in table], float)
    gdn, moe = (np.array([typical(row, name) for row in table]) for name in ("gdn", "moe"))
    line = fit_line(w, gdn) if gdn.all() else None  # a target may have no layer of a kind
    power = fit_line(np.log(w), np.log(moe)) if moe.all() else None
    return {
        "lengths": [row["w"] for row in table],
        "gdn": line and {"a": line.intercept, "b": line.slope, "r2": line.r2},
        "moe": power and {"c": exp(power.intercept), "d": power.slope, "r2": power.r2},
    }


def typical(row: Mapping[str, Any], part: str) -> float:
    """Median ms of a component, of `target` or of `drafter`."""
    if part in COMPONENTS:
        return float(row["components_ms"][part]["median"])
    return float(row[f"{part}_ms"]["median"])


def growth(table: Sequence[Row]) -> dict[str, Any] | None:
    """By what share each part's median grows from w = 4 to 16, or between the shortest length
    from 2 and the longest where those were not measured; None for a single length."""
    known = {row["w"]: row for row in table if row["w"] > 1}
    if len(known) < 2:
        return None
    first = PAPER_FROM if PAPER_FROM in known else min(known)
    last = PAPER_TO if PAPER_TO in known else max(known)
    if first >= last:
        first, last = min(known), max(known)
    parts = ("target", *COMPONENTS, "drafter")
    ends = {p: (typical(known[first], p), typical(known[last], p)) for p in parts}
    return {"from": first, "to": last} | {p: b / a - 1 if a else None for p, (a, b) in ends.items()}


def proxy(samples: Samples) -> dict[str, Any] | None:
    """New layer-0 experts of a draft as a proxy of later layers' new pairs, over all positions."""
    found = layer0_proxy(np.stack(samples.new))
    return None if found is None else asdict(found)


def latency_of_pairs(samples: Samples) -> dict[str, Any] | None:
    """Whether calls with more distinct (layer, expert) pairs take longer: Pearson's correlation
    over the calls of the longest length (paper appendix A.2). None where either never varies."""
    w = max(samples.whole)
    ms, pairs = np.array(samples.whole[w]), np.array(samples.pairs[w], float)
    if not (ms.std() and pairs.std()):
        return None
    correlation = float(np.corrcoef(ms, pairs)[0, 1])
    return {"w": w, "calls": len(ms), "correlation": correlation}


def curve(fit: Mapping[str, Any], part: str, w: Sequence[float]) -> list[float]:
    """The fitted ms of `gdn` or `moe` at lengths w."""
    found = fit[part]
    if part == "gdn":
        return [found["a"] + found["b"] * x for x in w]
    return [found["c"] * exp(found["d"] * log(x)) for x in w]
