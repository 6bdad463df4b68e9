"""The results for people: tables on stdout, with rich on a terminal and as plain text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from hybridspec.bench.tables import Table, drawn, number, plain, tables
from hybridspec.cli.output import write

SHOWN = 10  # differences listed; all are in the JSON


def show(results: dict[str, Any], put: Callable[[str], None] = write) -> None:
    """Print machine, tables, start and equality.

    Args:
        results: as `results.assemble` gives them.
        put: takes text; what it is by default raises as `output.write`.
    """
    draw = (_rich_drawer() if put is write and sys.stdout.isatty() else None) or plain
    put("\n".join(about(results)) + "\n\n")
    for table in tables(results):
        put(draw(table) + "\n\n")
    put("\n".join([*_startup(results), *_equality(results)]) + "\n")


def _rich_drawer() -> Callable[[Table], str] | None:
    """A function that draws a table with rich; None where rich is not installed."""
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table as RichTable
    except ImportError:
        return None

    def draw(table: Table) -> str:
        rich = RichTable(title=escape(table.title), title_justify="left", caption_justify="left")
        rich.caption = escape(table.note) or None
        for i, name in enumerate(table.header):
            rich.add_column(escape(name), justify="right" if i else "left")
        for row in table.rows:
            rich.add_row(*map(escape, row))
        console = Console()
        with console.capture() as drawn:
            console.print(rich)
        return drawn.get().rstrip("\n")

    return draw


def about(results: dict[str, Any]) -> list[str]:
    """Machine, model, runs and what was left out, in lines."""
    setup, runs = results["setup"], results["runs"]
    lines = [
        f"{setup['cpu']}, {setup['cores']} cores, threads: {setup['threads']}; "
        f"torch {setup['torch']}; hybridspec {setup['hybridspec']}"
    ]
    if "gpu" in setup:
        lines.append(f"{setup['gpu']}, driver {setup.get('driver', 'unknown')}")
    lines.append(
        f"{setup['model']}, {setup['prompt_form']} prompts, {drawn(setup)}, answers of at most "
        f"{setup['max_tokens']} tokens, {_times(results)}"
    )
    lines += [_run(run, setup["cores"]) for run in runs]
    return [*lines, *_skipped(results)]


def _times(results: dict[str, Any]) -> str:
    fresh = "fresh processes" if results["fresh_processes"] else "repeats"
    turns = ", every turn of a conversation" if results["setup"].get("turns") == "all" else ""
    return f"{fresh}: {results['repeats']}{turns}"


def _skipped(results: dict[str, Any]) -> Iterable[str]:
    skipped = results["skipped"]
    if not skipped:
        return
    total = len(skipped) + sum(results["prompts"].values())
    named = ", ".join(f"{s['prompt']} ({s['tokens']} tokens)" for s in skipped[:SHOWN])
    more = f", and {len(skipped) - SHOWN} more, in the JSON file" if len(skipped) > SHOWN else ""
    yield (
        f"Skipped {len(skipped)} of {total} prompts, too long for the context of "
        f"{results['context']} with their answers: {named}{more}."
    )


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
        f"{number(peak, '.0f')} MiB."
    )


def _equality(results: dict[str, Any]) -> Iterable[str]:
    equality, alone = results["equality"], len(results["systems"]) == 1
    compared, different = equality["compared"], equality["different"]
    if not compared:
        yield (
            f"Nothing was compared: {results['baseline']} is the only system and each prompt ran "
            "once. Name others with --systems to compare them."
        )
        return
    if not different:
        yield f"All {compared} other answers equal those of {equality['reference']}." + (
            " No other system was run." if alone else ""
        )
        return
    yield (
        f"DIFFERENT TOKENS: {different} of {compared} other answers differ from those of "
        f"{equality['reference']}. Speeds of different answers do not compare."
    )
    for d in equality["differences"][:SHOWN]:
        yield (
            f"  {d['prompt']}, {d['system']}, repeat {d['repeat']}: token {d['position']} is "
            f"{d['found']}, expected {d['expected']}; under plain decoding the two most likely "
            f"tokens lie {number(d['gap'], '.2e')} apart, {d['found']} lies "
            f"{number(d['regret'], '.2e')} below the first"
        )
    if different > SHOWN:
        yield f"  and {different - SHOWN} more, in the JSON file"
