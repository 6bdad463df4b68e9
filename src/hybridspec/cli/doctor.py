"""`hybridspec doctor`: whether a pair runs on this machine as it should, one line a check."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hybridspec import __version__
from hybridspec.cli import options as o
from hybridspec.cli.loading import import_engine, one_model
from hybridspec.cli.output import note, write, write_json

if TYPE_CHECKING:
    from hybridspec.doctor.finding import Finding

FAILED = 1

Model = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        show_default="the embedded pair",
        help="The target: a checkpoint folder, or a Hub id owner/name.",
    ),
]
Draft = Annotated[
    str | None,
    typer.Option(
        "--draft",
        "-d",
        metavar="SOURCE",
        show_default="none with MODEL",
        help="Its DFlash drafter: a folder or Hub id.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document with all checks.")]


def doctor(
    context: typer.Context,
    model: Model = None,
    named: o.Model = None,
    draft: Draft = None,
    profile: o.Profile = None,
    device: o.Device = "auto",
    dtype: o.DType = "auto",
    as_json: Json = False,
) -> None:
    """Check this machine, a pair and its profile, and decode a few tokens.

    One line a check: OK, note (one can live with it) or FAIL, and what to do. It loads the pair.

    Exit codes: 0 nothing failed; 1 a check failed; 2 an option cannot be used.
    """
    findings = _findings(one_model(context, model, named), draft, profile, device, dtype)
    found = list(findings) if as_json else [_told(finding) for finding in findings]
    if as_json:
        checks = [asdict(finding) for finding in found]
        body = {"checks": checks, "version": __version__}
        write_json(json.dumps(body, ensure_ascii=False) + "\n")
    if any(finding.state == "FAIL" for finding in found):
        raise typer.Exit(FAILED)


def _findings(
    model: str | None, draft: str | None, profile: Path | None, device: str, dtype: str
) -> Iterator[Finding]:
    """Options are refused here, before anything is checked."""
    from hybridspec.doctor.finding import not_importable

    try:
        import_engine()
    except (ImportError, OSError) as error:  # a library that a package links to is an OSError
        return not_importable(error)
    from hybridspec.doctor.checks import examine
    from hybridspec.doctor.setting import Setting
    from hybridspec.placement import choose_device, choose_dtype

    place = choose_device(device)
    return examine(Setting(model, draft, profile, place, choose_dtype(dtype, place)), note)


def _told(finding: Finding) -> Finding:
    write(finding.line + "\n")
    return finding
