"""Each repeat in a fresh process of its own, as the paper's sessions (appendix E.2).

The process that was started keeps the lock, the plan and the report; each child measures one repeat
and adds it to the journal. A child's stdin is its parent's life: when that pipe closes, however the
parent ended, the child ends too.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from typing import NoReturn

from hybridspec.bench.journal import Journal
from hybridspec.bench.options import SpeedOptions
from hybridspec.bench.setup import Plan
from hybridspec.cli.output import note
from hybridspec.errors import HybridSpecError, RequestError


def run_in_processes(plan: Plan, journal: Journal) -> Journal:
    """Measure what the journal lacks, a process a repeat; the journal as it is then.

    Raises:
        RequestError: what a child was refused, or a child that ended otherwise.
    """
    for repeat in range(plan.repeats):
        if all(key in journal.records for key in plan.of_repeat(repeat)):
            continue
        note(f"Process {repeat + 1} of {plan.repeats}:")
        _run_child(plan.options, repeat)
    return Journal(plan.options.out, plan.setup)


def _run_child(options: SpeedOptions, repeat: int) -> None:
    """One repeat. The child has a session of its own: Ctrl-C reaches it through its stdin only."""
    command = [sys.executable, "-m", "hybridspec.bench.session"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            pickle.dump((options, repeat), child.stdin)
            child.stdin.flush()
            said = child.stdout.read().decode(errors="replace")
        except OSError:  # it ended before it read
            said = ""
        finally:
            child.stdin.close()
    if child.returncode:
        raise RequestError(
            said
            or f"A process of the bench ended with code {child.returncode}. What is done is "
            "kept; the same command goes on from there."
        )


def _measure(options: SpeedOptions, repeat: int) -> None:
    """What a child does."""
    from hybridspec.bench import measure
    from hybridspec.bench.progress import Progress
    from hybridspec.bench.prompts import selected
    from hybridspec.bench.setup import make_plan

    plan = make_plan(options, selected(options))
    journal = Journal(options.out, plan.setup)
    schedule = plan.of_repeat(repeat)
    left = sum(key not in journal.records for key in schedule)
    engine = measure.load(options)
    with Progress(measure.warmup_count(plan) + left) as advance:
        measure.run(engine, plan, journal, advance, schedule)


def _end_with_parent() -> None:
    """Wait for the end of stdin, and end. A journal's line that is cut off is dropped later."""
    sys.stdin.buffer.read()
    os._exit(130)


def main() -> NoReturn:
    """A child: options and repeat on stdin, a sentence on stdout where something is wrong."""
    options, repeat = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        _measure(options, repeat)
    except HybridSpecError as error:
        sys.stdout.write(str(error))
        code = 2
    sys.stdout.flush()
    os._exit(code)  # the thread above holds stdin, which an orderly exit would wait for


if __name__ == "__main__":
    main()
