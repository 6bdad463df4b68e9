"""Times of the card: lists of them, pieces by round, and that the kernel compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hybridspec.bench.scripted.clocks.gaps import between
from hybridspec.bench.scripted.clocks.stamps import CHAIN, ROOM, Piece, Stamps, by_round
from hybridspec.errors import HybridSpecError

CPU = torch.device("cpu")


def commit() -> None:
    pass


def verify() -> None:
    pass


def test_a_step_s_calls_are_kept_by_name_and_end_a_round():
    stamps = Stamps(CPU)
    calls = [stamps.around(step, lambda whole: whole) for step in (verify, commit, verify, verify)]
    for call in calls:
        call()
    rounds = by_round(stamps.pieces(), "commit")
    assert [[p.name for p in r] for r in rounds] == [["verify", "commit"], ["verify", "verify"]]
    stamps.clear()
    assert stamps.pieces() == []


def test_a_step_runs_between_its_two_times():
    stamps, seen = Stamps(CPU), []
    stamps.around(lambda: seen.append(int(stamps._count)), lambda whole: whole)()
    assert seen == [1]
    assert int(stamps._count) == 2


@pytest.mark.parametrize("count", [1, 3, ROOM + 2])
def test_times_that_do_not_fit_are_refused(count):
    stamps = Stamps(CPU)
    stamps._count.fill_(count)
    with pytest.raises(HybridSpecError, match="expected two"):
        stamps.pieces()


def test_stamps_in_a_row():
    times = Stamps(CPU).chain()
    assert len(times) == CHAIN
    assert times == sorted(times)


def test_figures_of_gaps():
    """Rounds of two pieces: 10 us with a gap inside, 2 us or 4 us between."""

    def round_at(us: int) -> list[Piece]:
        ends = ((us, us + 3), (us + 5, us + 10))
        return [Piece(1000 * a, 1000 * b) for a, b in ends]

    found = between([[round_at(0), round_at(12), round_at(26)], [round_at(100), round_at(112)]])
    assert found["rounds"] == 3
    assert found["gap_us"] == 2
    assert found["gap_us_most"] == 4
    assert found["round_us"] == 12
    assert found["share"] == pytest.approx(8 / 38)
    assert found["idle"] == pytest.approx(14 / 38)
    assert found["pieces"] == 2


def test_the_kernel_compiles_and_reads_the_clock(tmp_path):
    code = """
import json, torch, triton
from offline import launches, source
from triton.backends.compiler import GPUTarget
from hybridspec.bench.scripted.clocks.stamps import ROOM, stamp
times = torch.empty(ROOM, dtype=torch.int64, device="meta")
count = torch.empty((), dtype=torch.int32, device="meta")
(launch,) = launches(lambda: stamp(times, count))
made = triton.compile(source(launch), target=GPUTarget("cuda", 90, 32), options=launch.options)
print(json.dumps(made.asm["ptx"]))
"""
    here = Path(__file__).parents[1] / "kernels"
    path = os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": path}
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ptx = json.loads(done.stdout)
    assert ptx.count("%globaltimer") == 1
    assert "st.global" in ptx
