from __future__ import annotations

import pytest

from bench.bench_records import record
from hybridspec.bench.averages import gain, mean_of, mean_speedup


def answers(system, speeds, prompts=2):
    """`prompts` answers a category, each of 2 decode tokens at that category's speed (tokens/s)."""
    return [
        record(f"{category}-{i}", system, seconds=2 / speed, category=category)
        for category, speed in speeds.items()
        for i in range(prompts)
    ]


def test_the_average_counts_categories_alike():
    """Pooled, the slow category would weigh more: the mean of 2 and 4 is 3 whatever their times."""
    ar = answers("ar", {"math": 1.0, "rag": 0.01})
    ours = answers("x", {"math": 2.0, "rag": 0.04})
    found = mean_speedup(ours, ar)
    assert found.value == pytest.approx(3.0)
    assert (found.low, found.high) == pytest.approx((3.0, 3.0))  # all prompts alike
    assert found.prompts == 4


def test_the_interval_is_that_of_resampling_within_categories():
    ar = answers("ar", {"math": 1.0, "rag": 1.0}, prompts=8)
    ours = answers("x", {"math": 2.0, "rag": 4.0}, prompts=8)
    for i, r in enumerate(ours):  # half the answers of each category twice as fast
        if i % 2:
            object.__setattr__(r, "decode_seconds", r.decode_seconds / 2)
    found = mean_speedup(ours, ar)
    assert 2 < found.low < found.value < found.high < 6
    # all math answers slow and all rag ones too, or all fast: the ends that no sample passes
    assert found.value == pytest.approx((2 / 0.75 + 4 / 0.75) / 2)


def test_a_category_of_one_prompt_gives_no_interval():
    found = mean_speedup(answers("x", {"math": 2.0}, 1), answers("ar", {"math": 1.0}, 1))
    assert (found.value, found.low, found.high) == (2.0, None, None)


def test_a_category_without_speed_gives_no_average():
    ours = [record("a", "x", tokens=[1], rounds=[], seconds=0.0)]
    assert mean_speedup(ours, [record("a")]) is None
    assert mean_speedup([], []) is None


def test_the_gain_is_the_quotient_of_the_averages():
    ar = answers("ar", {"math": 1.0, "rag": 0.5})
    ours = answers("hybridspec", {"math": 2.0, "rag": 2.0})  # SR 2 and 4, mean 3
    variant = answers("dflash", {"math": 1.0, "rag": 1.0})  # SR 1 and 2, mean 1.5
    found = gain(ours, variant, ar)
    assert found.value == pytest.approx(2.0)
    assert (found.low, found.high) == pytest.approx((2.0, 2.0))


def test_a_prompt_that_some_system_lacks_is_left_out():
    ar, ours = answers("ar", {"math": 1.0}, 3), answers("x", {"math": 2.0}, 2)
    assert mean_speedup(ours, ar).prompts == 2


def test_a_mean_needs_every_value():
    assert mean_of([1.0, 2.0]) == 1.5
    assert mean_of([1.0, None]) is None
    assert mean_of([]) is None
