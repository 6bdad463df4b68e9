"""`hybridspec bench profile`: what a verification call is spent on, by its length.

python -m hybridspec.bench.profile --out results

Importing this imports no torch, so that `--help` is instant.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from hybridspec.bench.command import decoding, ending
from hybridspec.bench.files import COMPONENTS, COMPONENTS_SCHEMA, locked, write_atomically
from hybridspec.bench.profile_arguments import ProfileOptions, parse
from hybridspec.bench.progress import Progress
from hybridspec.bench.prompts import Prompt, read_prompts, select
from hybridspec.cli.output import note, write, write_json
from hybridspec.errors import RequestError

if TYPE_CHECKING:
    from hybridspec.bench.component_times import Samples
    from hybridspec.engine import Engine

PROG = "python -m hybridspec.bench.profile"


def main(arguments: Sequence[str] | None = None, prog: str = PROG) -> int:
    """Parse, measure, report; the exit code is as the help says."""
    return ending(lambda: decoding(profile, parse(arguments, prog)))


def profile(options: ProfileOptions) -> int:
    """Measure, write DIR/components.json and print the report.

    Returns:
        0, or 130 when interrupted.

    Raises:
        HybridSpecError: bad input, or results that cannot be kept. ReaderGone: as `output.write`.
    """
    if options.plot:
        from hybridspec.bench.plot import check_matplotlib

        check_matplotlib()
    prompts = select(
        read_prompts(options.prompts),
        split=options.split,
        categories=options.categories,
        limit=options.limit,
    )
    with locked(options.out):
        _check_out(options)
        try:
            document = _measured(options, prompts)
        except KeyboardInterrupt:
            note("Interrupted; a profile that did not end keeps nothing.")
            return 130
        _report(options, document)
    return 0


def _check_out(options: ProfileOptions) -> None:
    path = options.out / COMPONENTS
    if path.exists() and not options.force:
        raise RequestError(
            f"{path} is there already. Replace it with --force, choose another --out, or draw it "
            f"with `hybridspec bench plot {options.out}`."
        )


def _measured(options: ProfileOptions, prompts: Sequence[Prompt]) -> dict[str, Any]:
    from hybridspec.bench import component_times, measure, profile_setup

    setup, lengths = profile_setup.setup(options, prompts)
    engine = measure.load(options)
    encoded = profile_setup.encoded(engine, prompts, options.max_tokens)
    drafter, capacity = engine.drafter, max(map(len, encoded)) + options.max_tokens
    assert drafter is not None  # `setup` refuses its absence
    verifier: Any = options.verifier  # `setup` refuses other names
    walk = component_times.Walk(engine.target, drafter, lengths, verifier, capacity)
    with Progress(len(prompts) + 1) as advance:
        samples = walk.run(encoded, engine.defaults.eos_token_ids, options.max_tokens, advance)
    if not samples.components:
        raise RequestError(
            "Every answer ended at its first token, so no verification was measured. Choose other "
            "prompts."
        )
    return _document(engine, setup, prompts, samples)


def _document(
    engine: Engine, setup: dict[str, Any], prompts: Sequence[Prompt], samples: Samples
) -> dict[str, Any]:
    from hybridspec.bench import component_fits
    from hybridspec.bench.component_times import WARMUP
    from hybridspec.bench.machine import circumstances

    run = {
        **circumstances(),
        "device": str(engine.target.device),
        "dtype": str(engine.target.dtype).removeprefix("torch."),
        "warmup_positions": WARMUP,
    }
    table = component_fits.rows(samples)
    return {
        "schema": COMPONENTS_SCHEMA,
        "setup": setup,
        "runs": [run],
        "prompts": dict(Counter(p.category for p in prompts)),
        "repeats": 1,
        "lengths": table,
        "growth": component_fits.growth(table),
        "fits": component_fits.fits(table),
        "layer0_proxy": component_fits.proxy(samples),
        "latency_of_pairs": component_fits.latency_of_pairs(samples),
        "overhead": median(row["overhead"] for row in table),
    }


def _report(options: ProfileOptions, document: dict[str, Any]) -> None:
    from hybridspec.bench.component_report import report

    path = options.out / COMPONENTS
    text = json.dumps(document, ensure_ascii=False)
    write_atomically(path, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    write(report(document))
    for picture in _plot(document, options):
        write(f"Drew {picture}\n")
    write(f"Figures: {path}\n")
    write_json(text + "\n")


def _plot(document: dict[str, Any], options: ProfileOptions) -> list[Path]:
    if not options.plot:
        return []
    from hybridspec.bench.plot import draw_components

    return draw_components(document, options.out)


if __name__ == "__main__":
    sys.exit(main())
