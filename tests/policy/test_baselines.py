"""Each rule by hand on small proposals."""

from __future__ import annotations

import pytest
import torch

from hybridspec.core import Proposal
from hybridspec.policy.baselines import (
    CascadePolicy,
    EmaPolicy,
    LaggedRatioPolicy,
    RatioPolicy,
    ThresholdPolicy,
    angelslim_lengths,
    dcut_lengths,
)

NO_EXPERTS = torch.empty(0, 2, dtype=torch.long)


def proposal(*confidence: float) -> Proposal:
    c = torch.tensor(confidence)
    return Proposal(torch.zeros(len(c), dtype=torch.long), c, torch.ones_like(c))


def test_dcuts_lengths_are_the_papers_and_its_own_codes():
    assert dcut_lengths(16) == (4, 8, 12, 16)
    assert angelslim_lengths(16) == (5, 9, 13, 16)


def test_evict_takes_the_best_ratio_of_all_lengths():
    cost = torch.tensor([0.0, 0.0, 1.0, 1.1, 2.0])
    # G = 1.9, 2.71, 2.98: ratios 1.9, 2.46, 1.49
    policy = RatioPolicy(cost, (2, 3, 4), longest=4)
    assert policy.select(proposal(0.9, 0.9, 0.33)).w0 == 3
    assert policy.correct(policy.select(proposal(0.9, 0.9, 0.33)), NO_EXPERTS) == 3
    assert policy.select(None).w0 == 1


def test_only_the_named_lengths_are_chosen_and_a_short_proposal_is_no_error():
    cost = torch.ones(17)
    policy = RatioPolicy(cost, dcut_lengths(16))
    assert policy.select(proposal(*[0.99] * 15)).w0 == 16
    assert policy.select(proposal(*[0.99] * 6)).w0 == 4
    assert policy.select(proposal(0.9, 0.9)).w0 == 3  # no choice fits: what there is


def test_a_tie_goes_to_the_shorter():
    cost = torch.tensor([0.0, 0.0, 1.5, 1.75])
    assert RatioPolicy(cost, (2, 3), longest=3).select(proposal(0.5, 0.5)).w0 == 2


@pytest.mark.parametrize(("h", "w"), [(0.05, 2), (0.1, 2), (0.2, 3), (0.5, 4), (0.99, 5)])
def test_specdecpp_stops_where_a_rejection_is_likely(h, w):
    # prefix 0.9, 0.81, 0.648, 0.1296
    assert ThresholdPolicy(h + 1e-6).select(proposal(0.9, 0.9, 0.8, 0.2)).w0 == w


def test_ema_follows_what_is_accepted():
    policy = EmaPolicy()
    start = policy.select(proposal(0.5)).w0
    for _ in range(30):
        policy.observe(start, 0, 0.0)
    assert policy.select(proposal(0.5)).w0 == 2
    for _ in range(60):
        policy.observe(8, 7, 0.0)
    assert policy.select(proposal(0.5)).w0 == 8
    assert policy.select(None).w0 == 1


def test_cascade_tries_all_and_keeps_the_fastest():
    policy = CascadePolicy(lengths=(1, 2, 4), trial=2, hold=5)
    tokens = {1: 1, 2: 2, 4: 2}
    seconds = {1: 1.0, 2: 1.2, 4: 2.0}
    chosen = []
    for _ in range(17):
        w = policy.select(proposal(0.5, 0.5, 0.5)).w0
        chosen.append(w)
        policy.observe(w, tokens[w] - 1, seconds[w])
    assert chosen == [1, 1, 2, 2, 4, 4, 2, 2, 2, 2, 2, 1, 1, 2, 2, 4, 4]


def test_cascade_stops_speculating_where_it_does_not_pay():
    policy = CascadePolicy(lengths=(1, 8), trial=1, hold=3)
    for _ in range(2):
        policy.observe(policy.select(proposal(0.5)).w0, 0, 1.0 if not policy._spent else 3.0)
    assert [policy.select(proposal(0.5)).w0] == [1]


def test_vllms_rule_lags_one_round():
    cost = torch.tensor([0.0, 0.5, 1.0, 1.1, 1.2])
    policy = LaggedRatioPolicy(cost, longest=4, smoothing=1.0)
    assert policy.select(proposal(0.1, 0.1, 0.1)).w0 == 4  # nothing known: the whole block
    assert policy.select(proposal(0.9, 0.9, 0.9)).w0 == 2  # what the round before deserved
    assert policy.select(proposal(0.1, 0.1, 0.1)).w0 == 4
