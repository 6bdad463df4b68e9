"""The command `hybridspec`: its verbs, and what each way to end gives as exit code.

0 the work is done; 2 the input cannot be used, said in one sentence on stderr; 130 interrupted;
141 the reader of standard output went away; 1 a defect of ours, with a traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from hybridspec import __version__
from hybridspec.cli import bench
from hybridspec.cli.endings import ending
from hybridspec.cli.generate import generate

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
app.command("generate")(generate)
app.add_typer(bench.app, name="bench")


def run(arguments: Sequence[str]) -> int:
    """Runs one command line, without the program's name; returns the exit code."""
    try:
        code = app(list(arguments), prog_name="hybridspec", standalone_mode=False)
    except (Exception, KeyboardInterrupt) as error:
        return ending(error)
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Runs the command line of this process."""
    sys.exit(run(sys.argv[1:]))
