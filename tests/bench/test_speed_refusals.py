"""The whole bench with input it cannot use, and with streams that take nothing."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import pytest

from hybridspec.bench.files import LOCK
from hybridspec.bench.speed import main


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--systems", "ar,eagle"], "The system 'eagle' is unknown"),
        (["--systems", "ar,static:99"], "static takes a number"),
        (["--model", "none/at/all"], "There is no checkpoint at 'none/at/all'"),
        (["--prompts", "none.jsonl"], "none.jsonl cannot be read"),
        (["--split", "dev"], "No prompt has the split 'dev'"),
        (["--categories", "art"], "No prompt has the category 'art'"),
        (["--max-tokens", "0"], "--max-tokens is 0"),
        (["--warmup", "0"], "--warmup is 0"),
        (["--max-tokens", "40000"], "No prompt fits the context of 32768"),
        (["--turns", "all", "--raw"], "--turns all needs a chat template"),
        (["--systems", "ar", "--ablation"], "--ablation has its own systems"),
        (["--device", "toaster"], "device"),
        (["--dtype", "int3"], "dtype"),
        (["--out", "/dev/null/x"], "cannot be written"),
        (["--threads", str(10**12)], "--threads is 1000000000000"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(command, change, said, out, capsys):
    assert main([*command, *change]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: ")
    assert said in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert not (out / LOCK).exists()


def test_a_file_whose_name_is_no_text_is_a_name(command, out, tmp_path, capfdbinary):
    name = os.fsdecode(b"\xff.jsonl")
    (tmp_path / "prompts.jsonl").rename(tmp_path / name)
    where = tmp_path / os.fsdecode(b"\xfe")
    assert main([*command, "--prompts", str(tmp_path / name), "--out", str(where)]) == 0
    assert json.loads((where / "speed.json").read_text())["setup"]["prompts"] == name
    last = json.loads(capfdbinary.readouterr().out.splitlines()[-1])
    assert last["results"] == str(where / "speed.json")


@pytest.mark.parametrize("module", [["hybridspec", "bench", "speed"], ["hybridspec.bench.speed"]])
@pytest.mark.parametrize(
    ("redirection", "said", "kept"),
    [
        (">&-", "Standard output is closed; the report has no place to go.", False),
        (">/dev/full", "No space left on device. The results are kept in ", True),
    ],
)
def test_a_report_without_a_place_is_one_sentence(command, out, module, redirection, said, kept):
    words = [sys.executable, "-m", *module, *command]
    done = subprocess.run(
        f"{shlex.join(words)} {redirection}", shell=True, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert (out / "speed.json").exists() == kept


@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_help_without_a_place_is_one_sentence(redirection):
    words = [sys.executable, "-m", "hybridspec.bench.speed", "--help"]
    done = subprocess.run(
        f"{shlex.join(words)} {redirection}", shell=True, stderr=subprocess.PIPE, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_nobody_has_to_watch(command, redirection):
    words = [sys.executable, "-m", "hybridspec.bench.speed", *command]
    done = subprocess.run(
        f"{shlex.join(words)} {redirection}", shell=True, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["complete"]


def test_a_missing_matplotlib_is_said_before_anything_runs(command, out, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*command, "--plot"]) == 2
    assert "need matplotlib" in capsys.readouterr().err
    assert not out.exists()
