"""Every kernel compiles for every architecture, within its shared memory and without spills."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SHARED = {80: 163, 86: 99, 89: 99, 90: 227, 120: 99}  # KiB a program may use, CUDA C guide


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(
    scope="module",
    params=["some", pytest.param("all", marks=pytest.mark.full)],
)
def reports(cache, request) -> list[dict]:
    return run(cache, request.param)


def run(cache: Path, word: str) -> list[dict]:
    here = Path(__file__).parent
    environment = os.environ | {
        "TRITON_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, str(here / "offline.py"), word]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_all_architectures_are_there(reports, request):
    some = "[some]" in request.node.name
    assert {r["architecture"] for r in reports} == ({86, 90, 120} if some else set(SHARED))


def test_shared_memory_fits(reports):
    too_much = [r for r in reports if r["shared"] > SHARED[r["architecture"]] * 1024]
    assert too_much == []


def test_nothing_spills(reports):
    assert [r for r in reports if r["spills"]] == []


SMALL, LARGE = (4, 8, 32, 32), (16, 32, 128, 128)
HALF, SINGLE = torch.bfloat16, torch.float32
SOME = {
    (LARGE, HALF, 80),
    (LARGE, HALF, 90),
    (LARGE, HALF, 120),
    (LARGE, SINGLE, 90),
    (SMALL, HALF, 90),
}
MATRIX = itertools.product((SMALL, LARGE, (16, 64, 128, 128)), (HALF, SINGLE), SHARED)


@pytest.mark.parametrize(
    ("sizes", "raw", "architecture"),
    [pytest.param(*case, marks=() if case in SOME else pytest.mark.full) for case in MATRIX],
)
@pytest.mark.parametrize("file", ["exact.cu", "baselines.cu"])
def test_cuda_sources_compile_without_spills(file, sizes, raw, architecture):
    from hybridspec.kernels.cuda import Source, compile_source
    from hybridspec.kernels.gdn import exact_cuda

    source = Source.read(exact_cuda.__package__, file)
    made = compile_source(source, architecture, dict(exact_cuda.defines(*sizes, raw)), anew=True)
    spills = re.findall(r"(\d+) bytes spill", made.log)
    assert spills
    assert set(spills) == {"0"}
    used = [int(n) for n in re.findall(r"(\d+) bytes smem", made.log)]
    assert max(used) <= 48 * 1024  # static shared memory, on any card


@pytest.mark.parametrize("sizes", [(16, 2, 66), (32, 2, 66), (8, 1, 132)], ids=str)
@pytest.mark.parametrize("file", ["split.cu", "combine.cu"])
def test_attention_by_warpgroups_compiles_without_spills(file, sizes):
    """And its products run beside the rest: the compiler says if it makes them wait."""
    from hybridspec.kernels.attention import split_cuda
    from hybridspec.kernels.cuda import Source, compile_source

    source = Source.read(split_cuda.__package__, file)
    log = compile_source(source, 90, dict(split_cuda.defines(*sizes)), anew=True).log
    assert set(re.findall(r"(\d+) bytes spill", log)) == {"0"}
    assert "serialized" not in log


def test_a_wrong_cuda_source_is_refused_with_the_compiler_s_words():
    from hybridspec.kernels.cuda import KernelError, compile_source

    with pytest.raises(KernelError, match="identifier"):
        compile_source("__global__ void f() { nothing = 1; }", 90, {})


def test_a_kernel_that_spills_is_seen(cache):
    assert any(r["spills"] for r in run(cache, "control") if r["kernel"] == "_verify")
