"""The tables of the report, from the results: cells are text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def tables(results: dict[str, Any]) -> list[Table]:
    """All that say something: a speed-up needs a second system."""
    speedups = [speedups_table(results)] if len(results["systems"]) > 1 else []
    return [systems_table(results), speeds_table(results), *speedups, lengths_table(results)]


def systems_table(results: dict[str, Any]) -> Table:
    """One row a system, over all prompts."""
    baseline = results["baseline"]
    header = (
        *("system", "tok/s", "min-max", f"x {baseline}", "95%", "acc. length", "mean w"),
        *("ms/round", "x round", "prefill s", "tokens", "stop/length"),
    )
    base = results["systems"][baseline]
    rows = [(name, *_system_cells(s, base)) for name, s in results["systems"].items()]
    return Table("All prompts", header, tuple(rows), _explained(baseline))


def speeds_table(results: dict[str, Any]) -> Table:
    """Pooled decode speed of every system in every category."""
    return _by_category(results, "Decode tokens per second by category", _speed)


def lengths_table(results: dict[str, Any]) -> Table:
    """Acceptance length of every system in every category."""
    return _by_category(results, "Acceptance length (tokens a round) by category", _length)


def speedups_table(results: dict[str, Any]) -> Table:
    """Speed-up by category: with intervals where few systems leave room for them."""
    baseline, systems = results["baseline"], results["systems"]
    others = [name for name in systems if name != baseline]
    title = f"Speed-up over {baseline} by category"
    if len(others) > NARROW:
        return _by_category(results, title, _times, others)
    rows = []
    for category, count in results["prompts"].items():
        ours = [_times_within(systems[name]["categories"].get(category)) for name in others]
        rows.append((category, str(count), *ours))
    return Table(f"{title} (95%)", ("category", "prompts", *others), tuple(rows))


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


def _by_category(
    results: dict[str, Any],
    title: str,
    cell: Callable[[Figures], str],
    names: Sequence[str] | None = None,
) -> Table:
    """One row a system, one column a category: there are more systems than categories."""
    counts = results["prompts"]
    rows = [("prompts", str(sum(counts.values())), *map(str, counts.values()))]
    for name in results["systems"] if names is None else names:
        s = results["systems"][name]
        rows.append((name, cell(s), *(cell(s["categories"].get(c)) for c in counts)))
    return Table(title, ("system", "all", *counts), tuple(rows))


def _explained(baseline: str) -> str:
    return (
        "acc. length: tokens a round; x round: mean time of a round over that of "
        f"{baseline}. x {baseline} is about acc. length / x round, over that of {baseline}."
    )


def _system_cells(s: dict[str, Any], base: dict[str, Any]) -> tuple[str, ...]:
    speed, speedup, itself = s["tokens_per_second"], s["speedup"], s is base
    per_round, reasons = s["seconds_per_round"], s["finish_reasons"]
    return (
        _speed(s),
        _repeats(speed),
        "1" if itself else _times(s),
        MISSING if itself else _interval(speedup),
        number(s["mean_acceptance_length"], ".2f"),
        number(s["mean_verification_length"], ".2f"),
        number(per_round and per_round * 1e3, ".2f"),
        "1" if itself else number(_ratio(s, base, "mean_seconds_per_round"), ".2f"),
        number(s["prefill_seconds"], ".3f"),
        str(s["tokens"]),
        f"{reasons.get('stop', 0)}/{reasons.get('length', 0)}",
    )


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


def _times_within(figures: Figures) -> str:
    """A speed-up with its interval, such as `1.52 (1.40-1.63)`."""
    speedup = figures and figures["speedup"]
    return f"{speedup['value']:.2f} ({_interval(speedup)})" if speedup else MISSING


def _times(figures: Figures) -> str:
    """A speed-up alone."""
    speedup = figures and figures["speedup"]
    return number(speedup["value"] if speedup else None, ".2f")


def _speed(figures: Figures) -> str:
    speed = figures and figures["tokens_per_second"]
    return number(speed["median"] if speed else None, ".1f")


def _length(figures: Figures) -> str:
    return number(figures["mean_acceptance_length"] if figures else None, ".2f")


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)])
