"""`hybridspec bench VERB`: measure on this machine. The bench itself has the options of `speed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hybridspec.cli.output import write
from hybridspec.cli.outputs import check_out
from hybridspec.errors import RequestError

app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
# The parser of the bench itself reads everything, `--help` included: one list of options, which
# also serves `python -m hybridspec.bench.speed` where typer is not installed.
PASS_ALL = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.callback(invoke_without_command=True)
def bench(context: typer.Context) -> None:
    """Measure on this machine."""
    if context.invoked_subcommand is None:
        write(context.get_help() + "\n")


def _check_out_named(context: typer.Context) -> None:
    """The bench's own parser would answer with pages of usage to what one sentence says."""
    given = {argument.partition("=")[0] for argument in context.args}
    if not given & {"--out", "--help", "-h"}:
        raise RequestError(
            "--out is missing; expected a folder for the results. See "
            f"{context.command_path} --help."
        )


@app.command("speed", context_settings=PASS_ALL, add_help_option=False)
def speed(context: typer.Context) -> None:
    """Compare decoding systems on the same prompts: the paper's tables."""
    _check_out_named(context)
    from hybridspec.bench.speed import main

    raise typer.Exit(main(context.args, "hybridspec bench speed"))


@app.command("profile", context_settings=PASS_ALL, add_help_option=False)
def profile(context: typer.Context) -> None:
    """Time verification calls by component and length."""
    _check_out_named(context)
    from hybridspec.bench.profile import main

    raise typer.Exit(main(context.args, "hybridspec bench profile"))


@app.command("verify", context_settings=PASS_ALL, add_help_option=False)
def verify(context: typer.Context) -> None:
    """Check that systems give the tokens of plain decoding."""
    _check_out_named(context)
    from hybridspec.bench.verify import main

    raise typer.Exit(main(context.args, "hybridspec bench verify"))


@app.command("quality", context_settings=PASS_ALL, add_help_option=False)
def quality(context: typer.Context) -> None:
    """Compare how many questions two systems answer rightly."""
    _check_out_named(context)
    from hybridspec.bench.quality import main

    raise typer.Exit(main(context.args, "hybridspec bench quality"))


@app.command("kernels", context_settings=PASS_ALL, add_help_option=False)
def kernels(context: typer.Context) -> None:
    """Check and time the GPU kernels, peers beside."""
    from hybridspec.bench.kernels import main

    raise typer.Exit(main(context.args, "hybridspec bench kernels"))


@app.command("scripted", context_settings=PASS_ALL, add_help_option=False)
def scripted(context: typer.Context) -> None:
    """Decode with the 35B shape on made-up weights whose text is known."""
    from hybridspec.bench.scripted.verb import main

    raise typer.Exit(main(context.args, "hybridspec bench scripted"))


@app.command("plot")
def plot(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="Folder of `bench speed`, `profile` or `scripted`, or a calibration profile.",
        ),
    ],
) -> None:
    """Draw the pictures of what is on disk. Nothing is measured."""
    from hybridspec.bench.redraw import redraw

    for picture in redraw(path):
        write(f"Drew {picture}\n")


@app.command("replay")
def replay(
    work: Annotated[
        Path, typer.Argument(metavar="DIR", help="PROFILE.work, where `calibrate` kept its traces.")
    ],
    profile: Annotated[
        Path, typer.Option("--profile", metavar="PATH", help="The profile that goes with them.")
    ],
    systems: Annotated[
        str | None,
        typer.Option("--systems", metavar="A,B", help="Names as of `generate --system`."),
    ] = None,
    cost: Annotated[
        str,
        typer.Option("--cost", metavar="NAME", help="measured (the profile's) or paper (table 4)."),
    ] = "measured",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="PATH", help="Write the JSON there too.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="DIR",
            help="Compare with a `bench speed` of the captured prompts that wrote there.",
        ),
    ] = None,
) -> None:
    """Walk every length policy over captured positions.

    Its rounds are priced as measured, or as in the paper; no model runs.
    """
    from hybridspec.bench import replay as table
    from hybridspec.errors import OptionError
    from hybridspec.policy.profile import load_profile

    if cost not in ("measured", "paper"):
        raise OptionError("cost", f"is {cost!r}; expected measured or paper.")
    if out is not None:
        check_out(out, profile)
    if against is not None:
        from hybridspec.bench import agreement_report

        if cost != "measured":
            raise OptionError("cost", f"is {cost!r}; --against compares with measured times.")
        known = load_profile(profile)
        return agreement_report.run(work, known, against, _names(systems), out, write)
    names = _names(systems) or table.SYSTEMS
    return table.run(work, load_profile(profile), names, cost == "paper", out, write)


def _names(listed: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())
