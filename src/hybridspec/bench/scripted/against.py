"""Ours against SGLang, from the document of a run beside it: ratios, and whether they compare.

SGLang's drafts are never right on random weights. Its tokens a second are therefore those it would
have on our traces: the acceptance length of our system of the same length over its time a round.
Times compare where both read as many distinct experts a layer (U); nothing is scaled.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from hybridspec.bench.scripted.sglang import MODES

Document = Mapping[str, Any]
EQUAL = 0.03  # by how much U may differ, as a part of SGLang's
# Our systems that verify a mode's length every round, the one to be compared first.
SAME = {
    "ar": ("ar",), "dflash4": ("static:4", "static:4:per-token"),
    "dflash8": ("static:8", "static:8:per-token"), "dflash16": ("length16", "static:16", "dflash"),
}  # fmt: skip


def figures(document: Document) -> dict[str, Any]:
    """By mode of SGLang: rounds against ours, U of both, tokens a second; and our drift."""
    modes = document["sglang"]["modes"]
    return {
        "modes": {mode: _mode(document, mode, body) for mode, body in modes.items()},
        "drift": drift(document),
    }


def _mode(document: Document, mode: str, body: Document) -> dict[str, Any]:
    systems, ms = document["systems"], body["ms_per_round"]
    same = [name for name in SAME[mode] if name in systems]
    rounds = {name: _round(systems[name]["mean"], ms) for name in same}
    made = {"ms_per_round": ms, "distinct": distinct(document, mode), "rounds": rounds}
    if not same:
        return made
    lengths = {c: f["acceptance_length"] for c, f in systems[same[-1]]["categories"].items()}
    rates = {category: 1e3 * length / ms for category, length in lengths.items()}
    over = {name: _over(s["categories"], rates) for name, s in systems.items()}
    tokens = {"acceptance_of": same[-1], "categories": rates, "mean": fmean(rates.values())}
    return made | {"tokens_per_second": tokens | {"ours_over_it": over}}


def _round(mean: Document, ms: float) -> dict[str, float]:
    """A round of ours against one of SGLang's."""
    ours = mean["ms_per_round"]
    return {"ms_per_round": ours, "mean_w": mean["mean_w"], "times_as_fast": ms / ours}


def _over(categories: Document, rates: Mapping[str, float]) -> dict[str, Any]:
    """A system's tokens a second over SGLang's."""
    each = {c: categories[c]["tokens_per_second"] / rate for c, rate in rates.items()}
    return {"categories": each, "mean": fmean(each.values()), "least": min(each.values())}


def distinct(document: Document, mode: str) -> dict[str, Any]:
    """U of both, by how much ours is more, and whether they are equal; None what is unknown."""
    length = str(MODES[mode])
    ours = document["facts"]["distinct"].get(length)
    theirs = document["sglang"]["modes"][mode].get("distinct", ours if mode == "ar" else None)
    more = ours / theirs - 1 if ours and theirs else None
    equal = None if more is None else abs(more) <= EQUAL
    return {"ours": ours, "sglang": theirs, "ours_more_by": more, "equal": equal}


def drift(document: Document) -> dict[str, Any] | None:
    """Our second run over our first, ms a round and tokens a second on the same answers."""
    again = document.get("again")
    if again is None:
        return None
    made = {}
    for name, body in again["systems"].items():
        first = document["systems"][name]["categories"]
        pairs = [(first[c], f) for c, f in body["categories"].items()]
        made[name] = {
            key: fmean(b[key] / a[key] for a, b in pairs)
            for key in ("ms_per_round", "tokens_per_second")
        }
    return made


def report(document: Document) -> str:
    """For people: sentences."""
    found = document["against"]
    lines = [line for mode, body in found["modes"].items() for line in _lines(document, mode, body)]
    if found["drift"]:
        lines.append("Our second run over our first, ms a round: " + ", ".join(
            f"{name} {f['ms_per_round']:.3f}" for name, f in found["drift"].items()
        ) + ".")  # fmt: skip
    lines += [f"FAILED: {sentence}" for sentence in document["failed"].values()]
    return "\n".join(lines)


def _lines(document: Document, mode: str, body: Document) -> list[str]:
    started = document["sglang"]["modes"][mode]["startup_s"]
    start = "" if started is None else f", started in {started:.0f} s"
    lines = [f"SGLang {mode}: {body['ms_per_round']:.3f} ms a round{start}. {said_of_u(body)}"]
    lines += [
        f"  our {name}: {f['ms_per_round']:.3f} ms a round, {f['times_as_fast']:.2f} times as fast"
        for name, f in body["rounds"].items()
    ]
    if tokens := body.get("tokens_per_second"):
        of = tokens["acceptance_of"]
        lines.append(
            f"  at the acceptance of {of} it makes {tokens['mean']:.0f} tokens/s; over it:"
        )
        lines.append("  " + ", ".join(
            f"{name} {f['mean']:.2f} (least {f['least']:.2f})"
            for name, f in tokens["ours_over_it"].items()
        ))  # fmt: skip
    return lines


def said_of_u(body: Document) -> str:
    """A sentence about the distinct experts of both."""
    u = body["distinct"]
    if u["sglang"] is None:
        return "Its distinct experts were not counted, so whether times compare is unknown."
    if u["ours"] is None:
        return f"U = {u['sglang']:.1f}; ours was not counted at this length."
    both = f"U = {u['sglang']:.1f}, ours {u['ours']:.1f}"
    if u["equal"]:
        return f"{both}: equal within {100 * EQUAL:.0f}%."
    return f"{both}, {100 * u['ours_more_by']:+.1f}%: NOT equal within {100 * EQUAL:.0f}%."
