from __future__ import annotations

from dataclasses import replace

import pytest

from bench.bench_records import record
from hybridspec.bench.figures import costs, figures, histogram
from hybridspec.bench.records import TimedRound


def test_figures_add_up():
    records = [
        record("a", "static:4", tokens=range(8), rounds=[(4, 3), (4, 2)], seconds=2.0),
        record("b", "static:4", tokens=range(4), rounds=[(4, 0), (2, 1)], seconds=4.0),
        record("c", "static:4", tokens=[1], rounds=[], seconds=0.0, finish="stop"),
    ]
    f = figures(records, [], 16)
    assert (f.generations, f.tokens, f.decode_tokens, f.decode_seconds) == (3, 13, 10, 6.0)
    assert f.rounds == sum(f.acceptance_histogram) == sum(f.verification_length_histogram) == 4
    assert len(f.acceptance_histogram) == 16
    assert f.acceptance_histogram[:4] == (1, 1, 1, 1)
    assert len(f.verification_length_histogram) == 17
    assert f.verification_length_histogram[2] == 1
    assert f.verification_length_histogram[4] == 3
    accepted = sum(a * n for a, n in enumerate(f.acceptance_histogram))
    assert f.mean_acceptance_length == (accepted + f.rounds) / f.rounds == 2.5
    assert f.mean_verification_length == 14 / 4
    assert f.seconds_per_round == 1.5  # of 1, 1, 2, 2
    assert f.finish_reasons == {"length": 2, "stop": 1}
    assert f.prompt_tokens == 30
    assert f.speedup is None


def test_unverified_drafts_are_counted_and_those_judged_make_the_share():
    rounds = (
        TimedRound(4, 3, 4, 0.5, 15, 12, 2),
        TimedRound(2, 0, 1, 0.5, 7, 3, 1),  # the answer ends soon: 3 of 6 judged
    )
    f = figures([replace(record("a", "x", seconds=3.0), rounds=rounds)], [], 16)
    assert (f.drafts_per_round, f.unverified_per_round) == (11.0, (12 + 6) / 2)
    assert (f.judged, f.missed, f.missed_share) == (15, 3, 0.2)
    assert f.round_seconds == 1.5  # of the decode time, not of the rounds' own
    assert figures([record()], [], 1).missed_share is None


def test_repeats_count_a_prompt_once():
    records = [record("a", repeat=r) for r in range(3)]
    assert figures(records, records, 1).prompt_tokens == 10
    assert figures(records, records, 1).generations == 3


def test_figures_without_rounds_hold_none_not_zero():
    f = figures([record(tokens=[1], rounds=[], seconds=0.0)], [], 1)
    assert f.tokens_per_second is f.seconds_per_round is None
    assert f.mean_acceptance_length is f.mean_verification_length is None


def test_a_value_outside_a_histogram_is_an_error():
    assert histogram([0, 2, 2], 3) == (1, 0, 2)
    with pytest.raises(ValueError, match="none for 3"):
        histogram([3], 3)


def test_costs_are_by_system_and_w():
    records = [
        record("a", "static:4", rounds=[(4, 0)] * 3, seconds=3.0),
        record("b", "static:4", rounds=[(4, 0), (2, 0)], seconds=8.0),
        record("a", "dflash", rounds=[(4, 0)], seconds=9.0),
    ]
    found = {(c.system, c.w): (c.rounds, c.low, c.median, c.high) for c in costs(records)}
    assert found == {
        ("static:4", 4): (4, 1.0, 1.0, 1.75),  # quartiles of 1, 1, 1, 4
        ("static:4", 2): (1, 4.0, 4.0, 4.0),
        ("dflash", 4): (1, 9.0, 9.0, 9.0),
    }
