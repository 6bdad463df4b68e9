from __future__ import annotations

import pytest

from bench.bench_records import record
from hybridspec.bench.figures import costs, figures, histogram, speedup, throughput


def test_throughput_pools_tokens_and_seconds_of_each_repeat():
    records = [
        record("a", tokens=range(11), seconds=1.0),  # 10 decode tokens
        record("b", tokens=range(3), seconds=3.0),  # 2
        record("a", repeat=1, tokens=range(11), seconds=2.0),
        record("b", repeat=1, tokens=range(3), seconds=4.0),
        record("a", repeat=2, tokens=range(11), seconds=0.5),
        record("b", repeat=2, tokens=range(3), seconds=0.5),
    ]
    spread = throughput(records)
    assert spread.repeats == (12 / 4, 12 / 6, 12 / 1)
    assert (spread.low, spread.median, spread.high) == (2, 3, 12)


def test_there_is_no_speed_without_decode_tokens():
    alone = [record(tokens=[1], seconds=0.0, rounds=[])]
    assert throughput(alone) is None
    assert throughput([]) is None
    assert speedup(alone, alone) is None
    assert speedup([], []) is None


def test_speedup_is_the_ratio_of_pooled_speeds_and_its_interval_holds_it():
    base = [record(p, seconds=4.0) for p in "abcd"]
    ours = [record(p, "dflash", seconds=s) for p, s in zip("abcd", (1, 2, 2, 3), strict=True)]
    result = speedup(ours, base)
    assert result.value == pytest.approx(2.0)
    assert result.prompts == 4
    assert 4 / 3 <= result.low < 2.0 < result.high <= 4.0  # no sample leaves the prompts' own range
    assert speedup(ours, base) == result


def test_the_interval_is_paired_so_what_slows_both_does_not_widen_it():
    base = [record(p, seconds=s) for p, s in zip("abcd", (1, 10, 3, 50), strict=True)]
    half = [record(p, "x", seconds=s / 2) for p, s in zip("abcd", (1, 10, 3, 50), strict=True)]
    result = speedup(half, base)
    assert (result.low, result.value, result.high) == pytest.approx((2, 2, 2))


def test_speedup_of_one_prompt_has_no_interval():
    result = speedup([record(system="x", seconds=0.5)], [record(seconds=1.0)])
    assert (result.value, result.low, result.high, result.prompts) == (2.0, None, None, 1)


def test_speedup_compares_only_prompts_that_both_answered():
    base = [record("a", seconds=2.0), record("b", seconds=1000.0)]
    assert speedup([record("a", "x", seconds=1.0)], base).value == 2.0


def test_an_interval_survives_prompts_whose_answer_is_one_token():
    base = [record("a", seconds=2.0)] + [record(p, tokens=[1], rounds=[], seconds=0) for p in "bc"]
    ours = [record("a", "x", seconds=1.0)]
    ours += [record(p, "x", tokens=[1], rounds=[], seconds=0) for p in "bc"]
    result = speedup(ours, base)
    assert (result.low, result.value, result.high) == pytest.approx((2, 2, 2))


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
