"""The verbs of the command `hybridspec`. Imported once Ctrl-C is taken care of: see `main`."""

from __future__ import annotations

from typing import Annotated

import typer

from hybridspec import __version__
from hybridspec.cli import bench
from hybridspec.cli.calibrate import calibrate
from hybridspec.cli.chat import chat
from hybridspec.cli.doctor import doctor
from hybridspec.cli.generate import generate
from hybridspec.cli.once import Once
from hybridspec.cli.serve import serve

# No rich here: help and errors are plain text, and so is what a traceback shows.
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"hybridspec {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
]


@app.callback(invoke_without_command=True)
def hybridspec(context: typer.Context, version: Version = False) -> None:
    """Lossless speculative decoding of hybrid GDN-MoE models (Qwen3.5/3.6) for one user."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# The verbs. Their modules are imported for every `--help`: what is heavy they import when they run.
app.command("generate", cls=Once)(generate)
app.command("serve", cls=Once)(serve)
app.command("chat", cls=Once)(chat)
app.command("calibrate", cls=Once)(calibrate)
app.command("doctor", cls=Once)(doctor)
app.add_typer(bench.app, name="bench")
