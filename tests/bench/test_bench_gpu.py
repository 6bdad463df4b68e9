"""Benches of GPU work on machines without a GPU, without packages, and without enough memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from hybridspec.bench import gpu, kernels
from hybridspec.bench.command import ending
from hybridspec.bench.scripted import verb
from hybridspec.bench.scripted.clocks import verb as clocks
from hybridspec.errors import RequestError

MAINS = {"scripted": verb.main, "clocks": clocks.main, "kernels": kernels.main}


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("TRITON_INTERPRET", os.environ.get("TRITON_INTERPRET", ""))


@pytest.mark.parametrize("name", MAINS)
def test_the_full_shape_is_refused_at_once(name, tmp_path, capsys):
    assert MAINS[name](["--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "needs a CUDA GPU, and torch finds none here; --s" in said
    assert "small shows on a CPU that it works" in said
    assert list(tmp_path.iterdir()) == []


def test_the_kernels_module_refuses_too(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "hybridspec.kernels.bench"], capture_output=True, text=True,
        check=False, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("Error: bench kernels needs a CUDA GPU")


@pytest.mark.parametrize("arguments", [["clocks"], ["kernels"], ["scripted", "loop"]])
def test_a_missing_package_is_named(arguments, monkeypatch, capsys):
    name, *launcher = arguments
    monkeypatch.setattr("hybridspec.kernels.support.installed", lambda p: p != "cuda.bindings")
    small = ["--shape", "small"] if name == "kernels" else ["--small"]
    assert MAINS[name]([*small, *(("--launcher", *launcher) if launcher else ())]) == 2
    said = capsys.readouterr().err
    assert "needs cuda-bindings, which is not installed: `pip install" in said


def test_a_run_without_kernels_needs_no_package_of_theirs(monkeypatch):
    monkeypatch.setattr("hybridspec.kernels.support.installed", lambda package: False)
    gpu.require("v", "--small", small=True, kernels=False)
    with pytest.raises(RequestError, match="Triton and cuda-bindings, which are not"):
        gpu.require("v", "--small", small=True)


def test_a_small_shape_is_interpreted(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET")
    gpu.require("v", "--small", small=True)
    assert os.environ["TRITON_INTERPRET"] == "1"


@pytest.mark.parametrize("error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory")])
def test_a_lack_of_memory_advises_what_the_verb_has(error, capsys):
    def full() -> int:
        raise error

    assert ending(full, verb.SMALLER) == 2
    said = capsys.readouterr().err
    assert said == f"Error: There is not enough memory. {verb.SMALLER}\n"
    assert "--max-context" not in said
    with pytest.raises(type(error)):
        ending(full)


def test_other_errors_stay_defects():
    def broken() -> int:
        raise RuntimeError("a defect")

    with pytest.raises(RuntimeError, match="a defect"):
        ending(broken, verb.SMALLER)
