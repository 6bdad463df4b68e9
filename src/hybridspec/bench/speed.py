"""`hybridspec bench speed`: decoding systems against each other on the same prompts.

python -m hybridspec.bench.speed --systems ar,static:4,dflash --out results

Importing this imports no torch, so that `--help` is instant and a start can be measured cold.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hybridspec.bench.arguments import parse
from hybridspec.bench.command import ending
from hybridspec.bench.files import MARKDOWN, RESULTS, locked, write_atomically
from hybridspec.bench.journal import Journal, holds_startup
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.progress import Progress
from hybridspec.bench.prompts import Prompt, selected
from hybridspec.bench.startup import measure_startup
from hybridspec.cli.loading import import_engine
from hybridspec.cli.output import note, write, write_json
from hybridspec.errors import HybridSpecError, RequestError

if TYPE_CHECKING:
    from torch import Tensor

    from hybridspec.bench.equality import Difference
    from hybridspec.bench.records import Key, Record
    from hybridspec.bench.setup import Plan
    from hybridspec.engine import Engine

PROG = "python -m hybridspec.bench.speed"


def main(arguments: Sequence[str] | None = None, prog: str = PROG) -> int:
    """Parse, measure, report; the exit code is as the help says."""
    return ending(lambda: bench(parse(arguments, prog)))


def bench(options: SpeedOptions) -> int:
    """Run what is left to run, write DIR/speed.json and print the report.

    Returns:
        0 when no answer differs, 1 when some do, 130 when interrupted.

    Raises:
        HybridSpecError: bad input, or results that cannot be kept. ReaderGone: as `output.write`.
    """
    if options.plot:
        from hybridspec.bench.plot import check_matplotlib

        check_matplotlib()
    if options.processes and options.prompts.exists() and not options.prompts.is_file():
        raise RequestError(
            f"--prompts {options.prompts} can be read only once, and every process of --processes "
            "reads it. Save the prompts to a file, or use --repeats."
        )
    prompts = selected(options)
    with locked(options.out):
        plan, journal = _prepare(options, prompts)
        try:
            return _report(plan, *_measure(plan, journal))
        except KeyboardInterrupt:
            note(_interrupted(plan, journal))
            return 130


def _prepare(options: SpeedOptions, prompts: Sequence[Prompt]) -> tuple[Plan, Journal]:
    """All that can be refused is refused here, before any weight is loaded."""
    startup = None
    if options.startup and (options.force or not holds_startup(options.out)):
        note("Measuring the start of `hybridspec generate` ...")
        startup = measure_startup(options)
    import_engine()  # not before: a start is measured cold
    from hybridspec.bench.setup import make_plan

    plan = make_plan(options, prompts)
    journal = Journal(options.out, plan.setup, force=options.force)
    if options.startup and journal.startup is None:
        journal.add_startup(startup or measure_startup(options))
    return plan, journal


def _measure(plan: Plan, journal: Journal) -> tuple[Journal, list[Difference]]:
    """Measure what is missing and compare the answers. Loads the pair only if there is a need."""
    from hybridspec.bench import equality, measure
    from hybridspec.bench.session import run_in_processes
    from hybridspec.bench.turns import comparable

    engine = None
    left = sum(key not in journal.records for key in plan.schedule)
    if left and plan.options.processes:
        journal = run_in_processes(plan, journal)
    elif left:
        engine = measure.load(plan.options)
        with Progress(measure.warmup_count(plan) + left) as advance:
            measure.run(engine, plan, journal, advance)
    wanted = {key: journal.records[key] for key in plan.schedule}
    found = equality.differences(comparable(wanted, plan.options.baseline), plan.options.baseline)
    if found:
        found = _with_gaps(engine or measure.load(plan.options), plan, found, wanted)
    return journal, found


def _with_gaps(
    engine: Engine, plan: Plan, found: list[Difference], records: dict[Key, Record]
) -> list[Difference]:
    from hybridspec.bench import equality, measure
    from hybridspec.bench.turns import comparable, question

    note("Some answers differ; looking how near the ties were ...")
    baseline = plan.options.baseline
    references = {
        question(k): k for k in sorted(records, reverse=True) if k.system == baseline
    }  # the first repeat's, being the last written

    def logits(name: str, answer: Sequence[int]) -> Tensor:
        ids = measure.ask(engine, plan, references[name], records)
        return equality.plain_logits(engine.target, ids, answer)

    firsts = equality.references(comparable(records, baseline), baseline)
    return equality.with_gaps(found, firsts, logits)


def _report(plan: Plan, journal: Journal, found: list[Difference]) -> int:
    from hybridspec.bench.markdown import markdown
    from hybridspec.bench.results import assemble

    results = assemble(plan, journal, found)
    path = plan.options.out / RESULTS
    write_atomically(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    write_atomically(path.with_name(MARKDOWN), markdown(results))
    try:
        _show(results, plan.options, path, journal.path)
    except HybridSpecError as error:
        raise HybridSpecError(f"{error} The results are kept in {path}.") from None
    return 1 if found else 0


def _show(results: dict[str, Any], options: SpeedOptions, path: Path, records: Path) -> None:
    """Report, pictures and last line. The document is on disk already, whatever fails here."""
    from hybridspec.bench.report import show
    from hybridspec.bench.results import summary

    show(results)
    for picture in _plot(results, options):
        write(f"Drew {picture}\n")
    write(
        f"Figures: {path}, in Markdown: {path.with_name(MARKDOWN)}. Every generation: {records}; "
        f"the same command with more {'--processes' if options.processes else '--repeats'}, "
        "--startup or --plot adds to it. "
        "`hybridspec bench plot` needs the figures alone.\n"
    )
    write_json(json.dumps(summary(results, str(path)), ensure_ascii=False) + "\n")


def _plot(results: dict[str, Any], options: SpeedOptions) -> list[Path]:
    if not options.plot:
        return []
    from hybridspec.bench.plot import draw

    return draw(results, options.out)


def _interrupted(plan: Plan, journal: Journal) -> str:
    if plan.options.processes:
        journal = Journal(plan.options.out, plan.setup)  # children have added to it
    schedule = plan.schedule
    done = sum(key in journal.records for key in schedule)
    return (
        f"Interrupted after {done} of {len(schedule)} generations, kept in {journal.path}. The "
        "same command goes on from there."
    )


if __name__ == "__main__":
    sys.exit(main())
