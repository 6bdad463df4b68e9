from __future__ import annotations

import pytest

from bench.bench_records import record
from hybridspec.bench.speeds import speedup, throughput


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
