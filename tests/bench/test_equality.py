from __future__ import annotations

import torch

from bench.bench_records import by_key, record
from builders import random_target, target_config
from hybridspec.bench.equality import (
    GAPS,
    Difference,
    compared,
    differences,
    plain_logits,
    references,
    with_gaps,
)
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.runtime.state import TargetState


def test_equal_answers_give_nothing():
    records = by_key(record(), record(system="dflash"), record(repeat=1))
    assert differences(records, "ar") == []


def test_a_reference_is_not_compared_with_itself():
    assert compared(by_key(record("a"), record("b")), "ar") == 0
    assert compared(by_key(record("a"), record("a", repeat=1), record("a", "dflash")), "ar") == 2
    assert compared(by_key(record("a"), record("b", "dflash")), "ar") == 0  # no reference for b


def test_the_first_different_token_is_named_with_both_sides():
    records = by_key(
        record("a", tokens=[5, 6, 7, 8]),
        record("a", "dflash", tokens=[5, 6, 9, 8]),
        record("b", tokens=[1, 2]),
        record("b", "dflash", tokens=[1, 2]),
    )
    assert differences(records, "ar") == [Difference("a", "dflash", 0, 2, expected=7, found=9)]


def test_an_answer_that_ends_early_or_late_is_different():
    records = by_key(
        record(tokens=[5, 6]), record(system="x", tokens=[5]), record(system="y", tokens=[5, 6, 7])
    )
    short, long = differences(records, "ar")
    assert (short.position, short.expected, short.found) == (1, 6, None)
    assert (long.position, long.expected, long.found) == (2, None, 7)


def test_a_repeat_of_the_baseline_must_equal_its_first():
    records = by_key(record(tokens=[1, 2]), record(repeat=1, tokens=[1, 3]))
    (found,) = differences(records, "ar")
    assert (found.system, found.repeat, found.position) == ("ar", 1, 1)


def test_a_prompt_that_the_baseline_has_not_answered_is_left_out():
    assert differences(by_key(record("a"), record("b", "dflash", tokens=[9])), "ar") == []


def test_gap_and_regret_come_from_the_tokens_before_the_difference():
    records = by_key(record(tokens=[5, 6, 7]), record(system="x", tokens=[5, 6, 2]))
    asked = []

    def logits(prompt, answer):
        asked.append((prompt, tuple(answer)))
        return torch.tensor([1.0, 4.0, 0.5, 3.75])

    (found,) = with_gaps(differences(records, "ar"), references(records, "ar"), logits)
    assert asked == [("a", (5, 6))]
    assert (found.gap, found.regret) == (0.25, 3.5)


def test_gaps_are_computed_for_the_first_few_only():
    base = [record(f"p{i}", tokens=[1]) for i in range(GAPS + 3)]
    other = [record(f"p{i}", "x", tokens=[0]) for i in range(GAPS + 3)]
    records = by_key(*base, *other)
    found = with_gaps(
        differences(records, "ar"), references(records, "ar"), lambda *_: torch.tensor([0.0, 1.0])
    )
    assert [d.gap for d in found] == [1.0] * GAPS + [None] * 3


def test_plain_logits_are_those_that_plain_decoding_chose_from():
    target = random_target(target_config())
    answer = Engine(target, max_context=256).generate(
        [3, 1, 4, 1, 5], SamplingParams(max_tokens=8), system="ar"
    )
    for n in (0, 1, 7):
        logits = plain_logits(target, [3, 1, 4, 1, 5], answer.token_ids[:n])
        assert int(logits.argmax()) == answer.token_ids[n]
    ids = torch.tensor([3, 1, 4, 1, 5, *answer.token_ids[:7]])
    whole = target.prefill(ids, TargetState(target.config, 64).slot()).logits[-1]
    # float32 sums in another order: a few hundred roundings of 6e-8, on logits of order 1
    torch.testing.assert_close(logits, whole, rtol=0.0, atol=1e-4)
