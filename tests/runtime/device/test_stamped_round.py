"""Rounds of a toy that note the time where they begin and end."""

from __future__ import annotations

import pytest
from test_run import FIXED, PLAN, read, tokens_of
from toy_run import CPU, Toy, answer

from hybridspec.bench.scripted.clocks.stamps import Stamps, by_round, form_with
from hybridspec.runtime.device.run import Run
from hybridspec.runtime.launching import ON_DEVICE


@pytest.mark.parametrize("launcher", ON_DEVICE)
def test_every_round_has_its_two_times(launcher):
    toy, stamps = Toy(FIXED, plan=PLAN, rounds=6), Stamps(CPU)
    plain = toy.round
    stamped = form_with(stamps)(plain.plan, plain.passes, toy.memory, toy.ring, early=False)
    run = Run(stamped, launcher)
    for _ in range(2):
        stamps.clear()
        run.begin(toy.sequence(), (), 30)
        records = read(run)
        assert tokens_of(records) == answer(7, 11, 30)
        pieces = stamps.pieces()
        assert len(by_round(pieces)) == len(pieces) == len(records)
        times = [t for p in pieces for t in (p.begin, p.end)]
        assert times == sorted(times)
        assert all(p.begin < p.end for p in pieces)
