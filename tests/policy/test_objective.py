"""The objective against brute force, hand-computed cases and the paper's own claims about it."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.policy.objective import (
    CorrectionTables,
    best_rate,
    correct,
    expected_tokens,
    new_experts,
    pooled_rate,
    select,
)


def rounds(seed: int, n: int, drafts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Prefix probabilities [n, drafts] and a cost by length, any shape, not monotone."""
    g = torch.Generator().manual_seed(seed)
    prefix = torch.rand(n, drafts, generator=g, dtype=torch.float64).cumprod(-1)
    cost = 0.2 + torch.rand(drafts + 2, generator=g, dtype=torch.float64)
    return prefix, cost


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4), st.floats(0, 3))
@settings(deadline=None, max_examples=60)
def test_dinkelbach_is_brute_force(seed, n, drafts, fixed):
    prefix, cost = rounds(seed, n, drafts)
    every = itertools.product(range(2, drafts + 2), repeat=n)
    best = max(float(pooled_rate(prefix, cost, fixed, torch.tensor(c))) for c in every)
    assert best_rate(prefix, cost, fixed) == pytest.approx(best, rel=1e-12)  # float64 sums


def test_expected_tokens_by_hand():
    p = torch.tensor([0.5, 0.25, 0.125])
    assert expected_tokens(p).tolist() == [1.0, 1.5, 1.75, 1.875]


def test_ties_go_to_the_shorter_and_no_drop_ends_the_search():
    p = torch.tensor([0.5, 0.5, 0.5, 0.5])
    flat = torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0, 2.5])  # each draft costs what it brings at rho 1
    assert int(select(p, flat, 1.0)) == 2
    dip = torch.tensor([0.0, 0.0, 1.0, 3.0, 3.0, 1.2])  # cheap again at 5, past two bad steps
    assert int(select(p, dip, 1.0)) == 5


def test_the_additive_test_at_the_pooled_rate_is_equation_8_at_the_rounds_own():
    """With one round, rho is its own rate, and both tests name the same length."""
    for seed in range(50):
        prefix, cost = rounds(seed, 1, 5)
        rate = best_rate(prefix, cost, 0.0)
        by_ratio = (expected_tokens(prefix[0]) / cost[1:7])[1:].argmax() + 2
        assert int(select(prefix[0], cost, rate)) == int(by_ratio)


def test_new_experts_by_hand():
    experts = torch.tensor([[0, 1], [1, 2], [3, 4], [0, 4]])
    assert [int(new_experts(experts, r)) for r in (1, 2, 3)] == [1, 2, 0]
    assert int(new_experts(experts, torch.tensor(2))) == 2


def tables(step: float, expert: float, drafts: int, k: int) -> CorrectionTables:
    mean = torch.full((drafts + 2,), 5.0)
    given_n = 5.0 + 2.0 * (torch.arange(k + 1) - k / 2).expand(drafts + 2, -1)
    return CorrectionTables(step, expert, mean, given_n)


@given(st.integers(0, 10**6), st.floats(0.0, 0.5), st.floats(0.001, 0.2))
@settings(deadline=None, max_examples=100)
def test_a_correction_needs_a_draft_that_is_cheaper_than_the_curve(seed, step, expert):
    """Section 3.3: it expands only if s > eta (nbar(w0 | n) - nbar(w0))."""
    prefix, cost = rounds(seed, 1, 6)
    p, rho = prefix[0], best_rate(prefix, cost, 1.0)
    t = tables(step, expert, 6, 4)
    experts = torch.randint(0, 9, (7, 4), generator=torch.Generator().manual_seed(seed))
    w0 = select(p, cost, rho)
    w = correct(w0, experts, p, cost, rho, t)
    assert int(w) in (int(w0), int(w0) + 1)
    if int(w) > int(w0):
        n = new_experts(experts, w0)
        assert step > expert * float(t.given[w0, n] - t.mean[w0]) - 1e-12  # rounding of one sum


def test_the_correction_by_hand():
    p = torch.tensor([0.9, 0.6, 0.4])
    cost = torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0])
    t = CorrectionTables(0.2, 0.1, torch.full((5,), 4.0), torch.arange(5.0).expand(5, -1))
    reused = torch.tensor([[0, 1], [1, 2], [0, 2]])  # the third row adds nothing
    fresh = torch.tensor([[0, 1], [1, 2], [3, 4]])  # it adds two
    w0 = torch.tensor(2)
    # rho = 2: 0.6 against 2 (0.5 - 0.2 + 0.1 (0 - 4)) = -0.2, and against 2 (0.3 - 0.2) = 0.2
    assert int(correct(w0, reused, p, cost, 2.0, t)) == 3
    # rho = 7: 0.6 against 7 * 0.1 = 0.7
    assert int(correct(w0, fresh, p, cost, 7.0, t)) == 2
    assert int(correct(w0, fresh, p, cost, 5.0, t)) == 3
    assert int(correct(w0, fresh[:2], p, cost, 0.0, t)) == 2  # Stage 0 did not reach it
