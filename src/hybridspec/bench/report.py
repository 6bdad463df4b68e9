"""The results for people: tables on stdout, with rich on a terminal and as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MISSING = "-"
NARROW = 4  # systems whose intervals fit into the table of categories
SHOWN = 10  # differences listed; all are in the JSON


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a header and rows of equal length; the first column is text, the others figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def show(results: dict[str, Any], write: Callable[[str], None] | None = None) -> None:
    """Print machine, tables, start and equality.

    Args:
        results: as `results.assemble` gives them.
        write: takes plain text; None prints, with rich where stdout is a terminal.
    """
    put = write or print
    draw = _rich_drawer() if write is None and sys.stdout.isatty() else None
    put("\n".join(_machine(results)) + "\n")
    for table in (systems_table(results), categories_table(results)):
        if draw is None:
            put(plain(table) + "\n")
        else:
            draw(table)
    put("\n".join([*_startup(results), *_equality(results)]))


def systems_table(results: dict[str, Any]) -> Table:
    """One row a system, over all prompts."""
    header = (
        "system",
        "tok/s",
        "min-max",
        f"x {results['baseline']}",
        "95%",
        "acc. length",
        "mean w",
        "ms/round",
        "prefill s",
        "tokens",
        "stop/length",
    )
    rows = [(name, *_system_cells(s)) for name, s in results["systems"].items()]
    return Table("All prompts", header, tuple(rows))


def categories_table(results: dict[str, Any]) -> Table:
    """One row a category: prompts, the baseline's speed, and each system's speed-up."""
    baseline, systems = results["baseline"], results["systems"]
    others = [name for name in systems if name != baseline]
    draw = _times if len(others) <= NARROW else _value
    rows = []
    for category, count in results["prompts"].items():
        figures = {n: s["categories"].get(category) for n, s in systems.items()}
        ours = [draw(figures[name]) for name in others]
        rows.append((category, str(count), _speed(figures[baseline]), *ours))
    header = ("category", "prompts", f"{baseline} tok/s", *others)
    return Table(f"Speed-up over {baseline} by category", header, tuple(rows))


def plain(table: Table) -> str:
    """Aligned text."""
    lines = [table.header, *table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(table.header))]
    return "\n".join([table.title, *(_aligned(line, widths) for line in lines)])


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)])


def _rich_drawer() -> Callable[[Table], None] | None:
    """A function that draws tables with rich; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
    except ImportError:
        return None

    def draw(table: Table) -> None:
        rich = RichTable(title=table.title, title_justify="left")
        for i, name in enumerate(table.header):
            rich.add_column(name, justify="right" if i else "left")
        for row in table.rows:
            rich.add_row(*row)
        Console().print(rich)

    return draw


def _system_cells(s: dict[str, Any]) -> tuple[str, ...]:
    speed, speedup = s["tokens_per_second"], s["speedup"]
    per_round = s["seconds_per_round"]
    reasons = s["finish_reasons"]
    return (
        _number(speed and speed["median"], ".1f"),
        _repeats(speed),
        _number(speedup and speedup["value"], ".2f"),
        _interval(speedup),
        _number(s["mean_acceptance_length"], ".2f"),
        _number(s["mean_verification_length"], ".2f"),
        _number(per_round and per_round * 1e3, ".2f"),
        _number(s["prefill_seconds"], ".3f"),
        str(s["tokens"]),
        f"{reasons.get('stop', 0)}/{reasons.get('length', 0)}",
    )


def _number(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)


def _repeats(speed: dict[str, Any] | None) -> str:
    """The least and the greatest figure of the repeats, where there are several."""
    if speed is None or len(speed["repeats"]) < 2:
        return MISSING
    return f"{speed['low']:.1f}-{speed['high']:.1f}"


def _interval(speedup: dict[str, Any] | None) -> str:
    if speedup is None or speedup["low"] is None:
        return MISSING
    return f"{speedup['low']:.2f}-{speedup['high']:.2f}"


def _times(figures: dict[str, Any] | None) -> str:
    """A speed-up with its interval, such as `1.52 (1.40-1.63)`."""
    speedup = figures and figures["speedup"]
    if not speedup:
        return MISSING
    return f"{speedup['value']:.2f} ({_interval(speedup)})"


def _value(figures: dict[str, Any] | None) -> str:
    """A speed-up alone."""
    speedup = figures["speedup"] if figures else None
    return _number(speedup["value"] if speedup else None, ".2f")


def _speed(figures: dict[str, Any] | None) -> str:
    speed = figures["tokens_per_second"] if figures else None
    return _number(speed["median"] if speed else None, ".1f")


def _machine(results: dict[str, Any]) -> list[str]:
    setup, runs = results["setup"], results["runs"]
    lines = [
        f"{setup['cpu']}, {setup['cores']} cores, threads: {setup['threads']}; "
        f"torch {setup['torch']}; hybridspec {setup['hybridspec']}"
    ]
    if "gpu" in setup:
        lines.append(f"{setup['gpu']}, driver {setup.get('driver', 'unknown')}")
    lines.append(
        f"{setup['model']}, {setup['prompt_form']} prompts, answers of at most "
        f"{setup['max_tokens']} tokens, repeats: {results['repeats']}"
    )
    lines += [_run(run, setup["cores"]) for run in runs]
    return lines


def _run(run: dict[str, Any], cores: int) -> str:
    load = run["load_average"]
    busy = load is not None and load > cores / 2
    return (
        f"Run of {run['date']} on {run['device']} in {run['dtype']}: "
        f"{run['warmup_generations']} warm-up generations discarded"
        + (f". The machine was busy at its start (load {load})" if busy else "")
        + "."
    )


def _startup(results: dict[str, Any]) -> Iterable[str]:
    startup = results["startup"]
    if startup is None:
        return
    peak = startup["peak_memory_mib"]
    yield (
        f"Process start to first token: {startup['first_seconds']:.2f} s in the first run, "
        f"{startup['warm_seconds']:.2f} s after; resident memory at most "
        f"{_number(peak, '.0f')} MiB."
    )


def _equality(results: dict[str, Any]) -> Iterable[str]:
    equality = results["equality"]
    answers, different = equality["answers"], equality["different"]
    if not different:
        yield f"All {answers} answers equal those of {equality['reference']}."
        return
    yield (
        f"DIFFERENT TOKENS: {different} of {answers} answers differ from those of "
        f"{equality['reference']}. Speeds of different answers do not compare."
    )
    for d in equality["differences"][:SHOWN]:
        yield (
            f"  {d['prompt']}, {d['system']}, repeat {d['repeat']}: token {d['position']} is "
            f"{d['found']}, expected {d['expected']}; under plain decoding the two most likely "
            f"tokens lie {_number(d['gap'], '.2e')} apart, {d['found']} lies "
            f"{_number(d['regret'], '.2e')} below the first"
        )
    if different > SHOWN:
        yield f"  and {different - SHOWN} more, in the JSON file"
