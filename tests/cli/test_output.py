from __future__ import annotations

import io
import sys

import pytest

from hybridspec.cli.main import run
from hybridspec.cli.output import ReaderGone, note, write, write_json
from hybridspec.errors import HybridSpecError


def test_a_full_disk_is_said(pair, monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(["generate", "x", *pair("cycle").options]) == 2
    said = capsys.readouterr().err
    assert (
        said == "Error: The answer cannot be written to standard output: No space left on device.\n"
    )


def test_a_closed_standard_output_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(HybridSpecError, match="Standard output is closed"):
        write("x")


def test_a_closed_standard_error_is_nobody_to_tell(pair, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    note("x")
    assert run(["generate", "x", "-n", "1", *pair("cycle").options]) == 0
    assert run(["generate", ""]) == 2


def test_a_reader_who_left(monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(ReaderGone):
        write("x")


def test_json_takes_any_name_of_a_file(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, "latin-1"))
    write_json('{"model": "é\udcff"}\n')
    assert raw.getvalue() == '{"model": "é\\udcff"}\n'.encode()
