"""The results of `quality` for people, and their summary for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hybridspec.bench.tables import Table, plain

FEW = 10  # questions on which the systems disagree: below it the normal approximation is none


def lines(results: dict[str, Any]) -> Iterator[str]:
    """What was asked, how many answers were right, the difference and what it means."""
    setup = results["setup"]
    drawn = f"sampled at T = {setup['temperature']:g}, seeds of their own"
    yield (
        f"{setup['model']}, {setup['prompt_form']} prompts of {setup['prompts']}, "
        f"{drawn if setup['temperature'] else 'greedy'}, answers of at most "
        f"{setup['max_tokens']} tokens, {setup['device']} in {setup['dtype']}"
    )
    yield _asked(results)
    yield ""
    yield plain(_table(results))
    yield ""
    yield from _shares(results)
    yield from _verdict(results)


def summary(results: dict[str, Any], path: str) -> dict[str, Any]:
    """The last line on stdout; shares, not points."""
    kept = (
        *("baseline", "system", "questions", "skipped", "right", "paired", "same_tokens"),
        *("difference", "bound", "score_bound", "margin", "not_inferior"),
    )
    return {"bench": "quality", "results": path, **{name: results[name] for name in kept}}


def _asked(results: dict[str, Any]) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in results["kinds"].items())
    left = [f"{count} ({why})" for why, count in results["skipped"].items() if count]
    return (
        f"{results['questions']} questions ({kinds}); rows left out: {', '.join(left) or 'none'}."
    )


def _table(results: dict[str, Any]) -> Table:
    """Counts by kind and by category, and over all."""
    groups = {f"kind {kind}": counts for kind, counts in results["by_kind"].items()}
    groups |= {f"category {name}": counts for name, counts in results["by_category"].items()}
    rows = [_cells(name, counts) for name, counts in {**groups, "all": results["paired"]}.items()]
    system, baseline = results["system"], results["baseline"]
    header = ("right by", "questions", "both", f"only {baseline}", f"only {system}", "neither")
    return Table("Answers", header, tuple(rows))


def _cells(name: str, counts: dict[str, int]) -> tuple[str, ...]:
    order = ("both", "only_baseline", "only_system", "neither")
    return (name, str(sum(counts.values())), *(str(counts[which]) for which in order))


def _shares(results: dict[str, Any]) -> Iterator[str]:
    n = results["questions"]
    for role in ("baseline", "system"):
        right, cut = results["right"][role], results["cut"][role]
        yield (
            f"{results[role]}: {right} of {n} right ({right / n:.2%})"
            + (f"; {cut} answers were cut off at the longest length" if cut else "")
            + "."
        )
    yield f"The same tokens from both: {results['same_tokens']} of {n} answers."


def _verdict(results: dict[str, Any]) -> Iterator[str]:
    bound, score = 100 * results["bound"], 100 * results["score_bound"]
    disagree = results["paired"]["only_baseline"] + results["paired"]["only_system"]
    yield (
        f"Paired difference {100 * results['difference']:+.2f} points; one-sided 95% lower bound "
        f"{bound:+.2f} (normal approximation, as in the paper), {score:+.2f} (score)."
    )
    if disagree < FEW:
        yield (
            f"Questions that told the systems apart: {disagree}. With so few go by the score "
            "bound; the approximation does not hold."
        )
    margin = f"the margin of {-100 * results['margin']:g} percentage points"
    if results["not_inferior"]:
        yield f"NOT INFERIOR: both bounds lie above {margin}."
        return
    yield f"NOT SHOWN: a bound lies at or below {margin}."
    if results["questions"] < results["least_questions"]:
        yield (
            f"No result could have shown it: that takes {results['least_questions']} questions or "
            "more."
        )
