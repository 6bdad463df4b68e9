from __future__ import annotations

import dataclasses
import inspect

import pytest
import torch
import typer
from typer.main import get_command

from hybridspec.cli.app import app
from hybridspec.cli.endings import ending, flag
from hybridspec.cli.output import ReaderGone
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import CheckpointError, OptionError


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The error as it is when it was raised, from its cause."""
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def allocation_failure() -> BaseException:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**55)
    return caught.value


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (CheckpointError("It is\nbad."), "Error: It is bad.\n"),
        (OptionError("min_p", "is bad."), "Error: --min-p is bad.\n"),
        (OptionError("stop_token_ids", "is bad."), "Error: --stop-token-id is bad.\n"),
        (PermissionError(13, "Permission denied", "/a/b"), "Error: /a/b: Permission denied.\n"),
        (OSError("odd"), "Error: The system refused a request: odd.\n"),
    ],
)
def test_what_the_user_can_mend_is_one_sentence(capsys, error, said):
    assert ending(raised(error)) == 2
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError(), allocation_failure()])
def test_a_lack_of_memory_is_no_defect(capsys, error):
    assert ending(error) == 2
    assert "not enough memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ReaderGone(), 141),
        (KeyboardInterrupt(), 130),
        (typer.Abort(), 130),
        (raised(ImportError("torch"), KeyboardInterrupt()), 130),
    ],
)
def test_quiet_ends(capsys, error, code):
    assert ending(raised(error, error.__cause__)) == code
    assert capsys.readouterr().err == ""


def test_a_defect_asks_for_a_report_and_shows_its_traceback(command, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("hybridspec.cli.generate.load_engine", fail)
    got = command("generate", "x")
    assert (got.code, got.out) == (1, "")
    assert got.err.startswith("Error: this is a defect of hybridspec. Please report it")
    assert got.err.endswith("ZeroDivisionError: oh\n")


def test_every_option_of_the_api_has_its_flag():
    """A sentence names what was typed: each field that can be refused is a flag by that rule. What
    is kept for the prompts after this one is the server's and the chat's."""
    commands = (get_command(app).commands[name] for name in ("generate", "serve"))
    options = {name for command in commands for o in command.params for name in o.opts}
    fields = [field.name for field in dataclasses.fields(SamplingParams)]
    arguments = [*fields, *inspect.signature(Engine.load).parameters]
    named = {flag(name) for name in arguments if name != "progress"}
    assert named <= options
