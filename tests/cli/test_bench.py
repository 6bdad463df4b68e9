from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from typer.testing import CliRunner

from disk_pair import write_pair
from hybridspec.cli.bench import app
from hybridspec.cli.main import run


def invoke(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_speed_is_the_bench(tmp_path):
    pair = write_pair(tmp_path / "pair", "flat")
    result = invoke(
        *("speed", *pair.options, "--systems", "ar,static:3", "--max-tokens", 4),
        *("--limit", 1, "--device", "cpu", "--out", tmp_path / "out"),
    )
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "out" / "speed.json").read_text())["complete"]


def test_exit_codes_and_sentences_are_the_benchs():
    result = invoke("speed", "--max-tokens", 0, "--out", "x")
    assert result.exit_code == 2
    assert "Error: --max-tokens is 0" in result.output


def test_the_bench_is_a_verb_of_hybridspec(capsys):
    assert run(["bench", "speed", "--max-tokens", "0", "--out", "x"]) == 2
    assert capsys.readouterr().err.startswith("Error: --max-tokens is 0")
    with pytest.raises(SystemExit) as ended:
        run(["bench", "speed", "--nonsense", "--out", "x"])
    assert ended.value.code == 2


def test_speed_help_is_the_benchs_own():
    result = invoke("speed", "--help")
    assert result.exit_code == 0
    assert "usage: hybridspec bench speed" in result.output
    assert "--systems A,B" in result.output


def test_profile_is_a_verb_with_the_benchs_own_help(tmp_path):
    result = invoke("profile", "--help")
    assert result.exit_code == 0
    assert "usage: hybridspec bench profile" in result.output
    result = invoke("profile", "--lengths", 99, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Error: --lengths is 99" in result.output


def test_kernels_needs_a_gpu_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    result = invoke("kernels", "--out", tmp_path)
    assert result.exit_code == 2
    assert "Error: bench kernels needs a CUDA GPU" in result.output
    assert list(tmp_path.iterdir()) == []
    assert "usage: hybridspec bench kernels" in invoke("kernels", "--help").output


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are interpreted without a GPU only")
def test_kernels_runs_in_the_interpreter(tmp_path):
    command = [sys.executable, "-m", "hybridspec", "bench", "kernels", "--shape", "small"]
    command += ["--parts", "norms", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| prepare |" in done.stdout
    assert json.loads((tmp_path / "kernels.json").read_text())["records"][0]["us"] > 0


def test_no_line_of_the_list_of_verbs_is_cut(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    said = invoke("--help").output
    assert "Compare decoding systems on the same prompts: the paper's tables." in said
    assert "..." not in said.replace("COMMAND [ARGS]...", "")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_bench_lists_its_verbs(arguments):
    result = invoke(*arguments)
    assert result.exit_code == 0
    assert "Compare decoding systems" in result.output


def test_importing_the_verb_is_light():
    code = (
        "import sys, hybridspec.cli.bench\n"
        "print([m for m in ('torch', 'numpy', 'hybridspec.bench.speed') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("verb", "words"),
    [("verify", "tokens of plain decoding"), ("quality", "THIS IS NO SANDBOX")],
)
def test_verbs_with_parsers_of_their_own(verb, words):
    said = invoke(verb, "--help")
    assert said.exit_code == 0
    assert f"usage: hybridspec bench {verb}" in said.output
    assert words in said.output
    refused = invoke(verb, "--max-tokens", 0, "--out", "x")
    assert refused.exit_code == 2
    assert "Error: --max-tokens is 0" in refused.output


@pytest.mark.parametrize("verb", ["speed", "profile", "verify", "quality"])
def test_a_bench_without_a_folder_for_its_results_is_refused_in_a_sentence(command, verb):
    command("bench", verb).refused("--out is missing", f"hybridspec bench {verb} --help")
