"""The results of `verify` for people, and their summary for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from hybridspec.bench.tables import MISSING, Table, number, plain

SHOWN = 10  # differences listed; all are in the JSON
Outcome = dict[str, Any]


def lines(results: dict[str, Any]) -> Iterator[str]:
    """Tables, differences, and the conclusion."""
    setup = results["setup"]
    yield (
        f"{setup['model']}, {setup['prompt_form']} prompts, {results['prompts']} of them, answers "
        f"of at most {setup['max_tokens']} tokens, {setup['device']} in {setup['dtype']}, threads: "
        f"{setup['threads']}"
    )
    if results["too_long"]:
        yield f"Left out, too long for the context: {_some(list(results['too_long']))}."
    if results["not_served"]:
        yield (
            "Not served by this pair and its profile, so not checked: "
            f"{', '.join(results['not_served'])}."
        )
    yield ""
    yield plain(_systems(results["systems"], results["reference"]))
    if results["forms"]:
        yield ""
        yield plain(_forms(results["forms"]))
    yield ""
    yield from _differences(results)
    yield _conclusion(results)


def summary(results: dict[str, Any], path: str) -> dict[str, Any]:
    """The last line on stdout."""
    outcomes = [o for _, o in _outcomes(results)]
    greedy = [o for o in outcomes if not o["temperature"]]
    return {
        "bench": "verify",
        "results": path,
        "lossless": results["lossless"],
        "prompts": results["prompts"],
        "systems": list(results["systems"]),
        "compared": _sum(outcomes, "compared"),
        "equal": _sum(outcomes, "equal"),
        "near_ties": _sum(outcomes, "near_ties"),
        "different": _sum(outcomes, "different"),
        "other_rounds": _sum(outcomes, "other_rounds"),
        "largest_regret": _largest(greedy, "largest_regret"),
        "largest_turn": _largest(outcomes, "largest_turn"),
    }


def _systems(systems: dict[str, list[Outcome]], reference: str) -> Table:
    drawn = [_drawn(o) for o in next(iter(systems.values()))]
    header = (
        *("system", *drawn, "share", "near ties", "different", "bound"),
        *("first", "median", "last", "regret", "turn"),
    )
    rows = tuple((name, *_cells(runs)) for name, runs in systems.items())
    note = (
        "equal answers of all; first, median, last: positions of first differences; regret (greedy "
        "answers') and turn:\nthe largest, in logits; bound: the largest turn of a near tie."
    )
    return Table(f"Answers with the tokens of {reference}", header, rows, note)


def _cells(runs: list[Outcome]) -> tuple[str, ...]:
    """One system, all temperatures."""
    at = sorted(position for o in runs for position in o["positions"])
    where = (str(at[0]), f"{median(at):g}", str(at[-1])) if at else (MISSING,) * 3
    return (
        *(f"{o['equal']}/{o['compared']}" for o in runs),
        f"{_sum(runs, 'equal') / _sum(runs, 'compared'):.1%}",
        str(_sum(runs, "near_ties")),
        str(_sum(runs, "different")),
        f"{runs[0]['bound']:g}",
        *where,
        number(_largest((o for o in runs if not o["temperature"]), "largest_regret"), ".2e"),
        number(_largest(runs, "largest_turn"), ".2e"),
    )


def _forms(forms: dict[str, list[Outcome]]) -> Table:
    names = ("equal", "near_ties", "different", "other_rounds")
    rows = []
    for name, runs in forms.items():
        for form in dict.fromkeys(o["form"] for o in runs):
            ours = [o for o in runs if o["form"] == form]
            label = f"{name}, {form}"
            counts = (_sum(ours, n) for n in ("compared", "rounds", *names))
            rows.append((label, *map(str, counts)))
    header = ("system, form", "answers", "rounds", *(n.replace("_", " ") for n in names))
    note = (
        "unsplit: layer 0 runs whole before the length is chosen; overwritten: what Stage 0 left "
        "of inputs past w is\nnot-a-number. other rounds: the same tokens, but other lengths or "
        "acceptances. sweep: Stage 0 of the whole\nblock, w = 1 to all of it in turn."
    )
    return Table("Other forms of rounds, beside the form that is served", header, tuple(rows), note)


def _sum(outcomes: Iterable[Outcome], name: str) -> int:
    return sum(int(o[name]) for o in outcomes)


def _largest(outcomes: Iterable[Outcome], name: str) -> float | None:
    return max((float(o[name]) for o in outcomes if o[name] is not None), default=None)


def _differences(results: dict[str, Any]) -> Iterator[str]:
    found = [
        (not d["near"], name, o, d) for name, o in _outcomes(results) for d in o["differences"]
    ]
    found.sort(key=lambda f: not f[0])  # what fails comes first
    for fails, name, o, d in found[:SHOWN]:
        form = "" if o["form"] == "split" else f", {o['form']}"
        yield (
            f"{'DIFFERENT' if fails else 'near tie'}: {d['prompt']}, {name}{form}, {_drawn(o)}: "
            f"token {d['position']} is {_token(d, 'found')}, expected {_token(d, 'expected')}; "
            f"gap {number(d['gap'], '.2e')}, regret {number(d['regret'], '.2e')}, turn "
            f"{number(d['turn'], '.2e')}"
        )
    if len(found) > SHOWN:
        yield f"and {len(found) - SHOWN} more, in the JSON file"
    if found:
        yield ""


def _conclusion(results: dict[str, Any]) -> str:
    s = summary(results, "")
    equal = f"{s['equal']} of {s['compared']} comparisons are equal token for token"
    if not results["lossless"]:
        return (
            f"NOT LOSSLESS: {s['different']} answers differ by more than a near tie and "
            f"{s['other_rounds']} came from other rounds; {equal}."
        )
    if s["near_ties"]:
        return f"Lossless up to near ties: {equal}, the other {s['near_ties']} are near ties."
    return f"Lossless: {equal}."


def _outcomes(results: dict[str, Any]) -> Iterator[tuple[str, Outcome]]:
    for group in ("systems", "forms"):
        for name, runs in results[group].items():
            for outcome in runs:
                yield name, outcome


def _drawn(o: Outcome) -> str:
    return f"T = {o['temperature']:g}" if o["temperature"] else "greedy"


def _token(d: dict[str, Any], which: str) -> str:
    if d[which] is None:
        return "no token"
    text = d[f"{which}_text"]
    return str(d[which]) if text is None else f"{d[which]} ({text!r})"


def _some(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
