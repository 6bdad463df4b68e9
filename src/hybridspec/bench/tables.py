"""The tables of the report, from the results: cells are text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MISSING = "-"
NARROW = 4  # systems whose intervals fit beside each other
# Of one system on some prompts, as `asdict(Figures)` gives it; None where it answered none of them.
Figures = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a header and rows of equal length; the first column is text, the others figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables(results: dict[str, Any], *, wide: bool = False) -> list[Table]:
    """All that say something: a speed-up needs a second system.

    Args:
        results: as `results.assemble` gives them.
        wide: whether columns for the intervals of many systems have room.
    """
    several = len(results["systems"]) > 1
    found = [main_table(results)]
    if results.get("ablation"):
        found.append(ablation_table(results))
    found += [rounds_table(results), speed_table(results)]
    if several and (wide or len(results["systems"]) - 1 <= NARROW):
        found.append(speedups_table(results))
    return [*found, speeds_table(results)]


def main_table(results: dict[str, Any]) -> Table:
    """The paper's Table 1: AL and SR of every system in every category, their mean, and pooled."""
    counts, baseline = results["prompts"], results["baseline"]
    total = str(sum(counts.values()))
    rows = [("prompts", *map(str, counts.values()), total, total)]
    for name, s in results["systems"].items():
        parts = (s["categories"].get(category) for category in counts)
        average, pooled = s["averages"], _pair(s["mean_acceptance_length"], s["speedup"])
        mean = _pair(average["acceptance_length"], average["speedup"])
        each = (p and _pair(p["mean_acceptance_length"], p["speedup"]) for p in parts)
        rows.append((name, *(cell or MISSING for cell in each), mean, pooled))
    note = (
        f"AL: tokens a round. SR: speed over that of {baseline}, pooled within a category. Avg.: "
        "mean over categories; pooled: all rounds and answers together."
    )
    title = f"AL and SR by category, {drawn(results['setup'])}"
    return Table(title, ("system", *counts, "Avg.", "pooled"), tuple(rows), note)


def ablation_table(results: dict[str, Any]) -> Table:
    """The paper's Table 3."""
    header = ("component", "replaced by", "w", "AL", "SR", "gain (95%)")
    rows = tuple(
        (
            *(row["component"], row["replaced_by"], number(row["w"], ".1f")),
            *(number(row["acceptance_length"], ".2f"), _times(row), _within(row["gain"])),
        )
        for row in results["ablation"]
    )
    note = "Means over categories. Gain: the SR of hybridspec over that of the variant."
    return Table("What each part of hybridspec gains", header, rows, note)


def rounds_table(results: dict[str, Any]) -> Table:
    """What the rounds of every system were like, over all prompts."""
    baseline = results["baseline"]
    header = (
        *("system", "AL", "w", "drafts", "unverified", "missed", "AL gap"),
        *("ms/round", "median", f"x {baseline}"),
    )
    base = results["systems"][baseline]
    rows = tuple((name, *_round_cells(s, base)) for name, s in results["systems"].items())
    note = (
        "drafts: proposed a round; unverified: of these not verified; missed: the share of these "
        "that would have been accepted, where the answer goes on far enough to tell; AL gap: the "
        "same share as the paper has it, from the Avg. AL of a system that verifies the whole "
        f"block; ms/round: decode time over rounds; x {baseline}: that over the baseline's."
    )
    return Table("Rounds, all prompts", header, rows, note)


def speed_table(results: dict[str, Any]) -> Table:
    """Speeds and answers of every system, over all prompts."""
    baseline = results["baseline"]
    header = (
        *("system", "tok/s", "min-max", "SR", "95%", "Avg. SR", "95%"),
        *("prefill s", "tokens", "stop/length"),
    )
    base = results["systems"][baseline]
    rows = tuple((name, *_speed_cells(s, base)) for name, s in results["systems"].items())
    return Table("Speed, all prompts", header, rows)


def speeds_table(results: dict[str, Any]) -> Table:
    """Pooled decode speed of every system in every category, in tokens a second."""
    counts = results["prompts"]
    rows = []
    for name, s in results["systems"].items():
        rows.append((name, _speed(s), *(_speed(s["categories"].get(c)) for c in counts)))
    return Table("Decode tokens per second by category", ("system", "all", *counts), tuple(rows))


def speedups_table(results: dict[str, Any]) -> Table:
    """Speed-up with its interval, a row a category."""
    baseline, systems = results["baseline"], results["systems"]
    others = [name for name in systems if name != baseline]
    counts = results["prompts"]
    rows = []
    for category, count in counts.items():
        ours = [systems[name]["categories"].get(category) for name in others]
        rows.append((category, str(count), *(_within(s and s["speedup"]) for s in ours)))
    total = str(sum(counts.values()))
    averages = (systems[name]["averages"]["speedup"] for name in others)
    rows.append(("Avg.", total, *(_within(s) for s in averages)))
    rows.append(("pooled", total, *(_within(systems[name]["speedup"]) for name in others)))
    title = f"SR over {baseline} (95%)"
    return Table(title, ("category", "prompts", *others), tuple(rows))


def drawn(setup: Mapping[str, Any]) -> str:
    """How tokens were chosen, in a word or three."""
    temperature = setup.get("temperature")
    return f"sampled at T = {temperature:g}" if temperature else "greedy"


def plain(table: Table) -> str:
    """Aligned text."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]
    notes = [table.note] if table.note else []
    return "\n".join([table.title, *(_aligned(line, widths) for line in lines), *notes])


def number(value: float | None, form: str) -> str:
    """A figure, or a dash."""
    return MISSING if value is None else format(value, form)


def _pair(length: float | None, speedup: dict[str, Any] | None) -> str:
    """AL and SR, such as `6.20 2.39x`."""
    times = f"{speedup['value']:.2f}x" if speedup else MISSING
    return f"{number(length, '.2f')} {times}"


def _round_cells(s: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    drafts, unverified = s["drafts_per_round"], s["unverified_per_round"]
    return (
        number(s["mean_acceptance_length"], ".2f"),
        number(s["mean_verification_length"], ".2f"),
        number(drafts, ".2f") if drafts else MISSING,
        number(unverified, ".2f") if drafts else MISSING,
        number(s["missed_share"], ".1%"),
        number(s["al_gap_share"], ".1%"),
        _ms(s["round_seconds"]),
        _ms(s["seconds_per_round"]),
        "1" if s is base else number(_ratio(s, base, "round_seconds"), ".2f"),
    )


def _speed_cells(s: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    reasons, itself, average = s["finish_reasons"], s is base, s["averages"]["speedup"]
    return (
        _speed(s),
        _repeats(s["tokens_per_second"]),
        *(("1", MISSING) if itself else (_times(s), _interval(s["speedup"]))),
        *(("1", MISSING) if itself else (_value(average), _interval(average))),
        number(s["prefill_seconds"], ".3f"),
        str(s["tokens"]),
        f"{reasons.get('stop', 0)}/{reasons.get('length', 0)}",
    )


def _ms(seconds: float | None) -> str:
    return number(seconds and seconds * 1e3, ".2f")


def _ratio(s: dict[str, Any], base: dict[str, Any], name: str) -> float | None:
    return s[name] / base[name] if s[name] and base[name] else None


def _repeats(speed: dict[str, Any] | None) -> str:
    """The least and the greatest figure of the repeats, where there are several."""
    if speed is None or len(speed["repeats"]) < 2:
        return MISSING
    return f"{speed['low']:.1f}-{speed['high']:.1f}"


def _interval(speedup: dict[str, Any] | None) -> str:
    if speedup is None or speedup["low"] is None:
        return MISSING
    return f"{speedup['low']:.2f}-{speedup['high']:.2f}"


def _within(speedup: dict[str, Any] | None) -> str:
    """A speed-up with its interval, such as `1.52 (1.40-1.63)`."""
    return f"{speedup['value']:.2f} ({_interval(speedup)})" if speedup else MISSING


def _value(speedup: dict[str, Any] | None) -> str:
    """A speed-up alone."""
    return number(speedup["value"] if speedup else None, ".2f")


def _times(figures: Figures) -> str:
    """The speed-up among some figures."""
    return _value(figures and figures["speedup"])


def _speed(figures: Figures) -> str:
    speed = figures and figures["tokens_per_second"]
    return number(speed["median"] if speed else None, ".1f")


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)])
