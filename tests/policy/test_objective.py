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
    every_new,
    expected_tokens,
    new_experts,
    pooled_rate,
    reconsider,
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


def test_equation_8_and_the_additive_test_by_hand():
    """From w = 2 to 3, Delta G = 0.4: its own rate takes it, a higher pooled one does not."""
    prefix, ms = torch.tensor([0.5, 0.4]), torch.tensor([0.0, 0.0, 10.0, 12.0])
    tokens = expected_tokens(prefix)
    gain, more = float(tokens[2] - tokens[1]), float(ms[3] - ms[2])
    assert gain * float(ms[2]) > float(tokens[1]) * more  # 0.4 x 10 > 1.5 x 2: equation 8 holds
    assert int(select(prefix, ms, 1.5 / 10)) == 3  # at the round's own rate: 0.4 > 0.15 x 2
    assert int(select(prefix, ms, 0.19)) == 3  # 0.4 > 0.38
    assert int(select(prefix, ms, 0.21)) == 2  # 0.4 < 0.42


def test_the_pooled_objective_by_hand():
    """Two rounds, G = 1.5, 1.9 and 1.1, 1.12 at w = 2, 3, which cost 10 and 12 ms, 1 of them fixed.

    Pooled: (1.9 + 1.1) / (12 + 10) is the most of 2.6 / 20, 3.0 / 22, 2.62 / 22 and 3.02 / 24.
    """
    prefix, cost = torch.tensor([[0.5, 0.4], [0.1, 0.02]]), torch.tensor([0.0, 0.0, 9.0, 11.0])
    rates = {c: float(pooled_rate(prefix, cost, 1.0, torch.tensor(c)))
             for c in itertools.product((2, 3), repeat=2)}  # fmt: skip
    by_hand = {(2, 2): 2.6 / 20, (3, 2): 3.0 / 22, (2, 3): 2.62 / 22, (3, 3): 3.02 / 24}
    assert rates == pytest.approx(by_hand, rel=1e-6)  # float32
    assert best_rate(prefix, cost, 1.0) == pytest.approx(3.0 / 22, rel=1e-6)
    assert select(prefix, cost, 3.0 / 22).tolist() == [3, 2]


def test_new_experts_by_hand():
    experts = torch.tensor([[0, 1], [1, 2], [3, 4], [0, 4]])
    assert every_new(experts).tolist() == [2, 1, 2, 0]
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


@given(st.integers(0, 10**6), st.floats(0.0, 0.5), st.floats(0.0, 0.2), st.floats(0.05, 3))
@settings(deadline=None, max_examples=200)
def test_the_wider_correction_is_equation_6_where_it_may_only_add_one(seed, step, expert, rho):
    prefix, cost = rounds(seed, 1, 6)
    experts = torch.randint(0, 9, (7, 4), generator=torch.Generator().manual_seed(seed))
    known = prefix[0], cost, rho, tables(step, expert, 6, 4)
    w0 = select(prefix[0], cost, rho)
    for u in (int(w0), min(int(w0) + 1, 7)):
        narrow = correct(w0, experts[:u], *known)
        assert int(reconsider(w0, experts[:u], *known, shrink=False)) == int(narrow)


@given(st.integers(0, 10**6), st.floats(0.0, 0.5), st.floats(0.0, 0.2), st.booleans())
@settings(deadline=None, max_examples=100)
def test_the_wider_correction_is_brute_force(seed, step, expert, shrink):
    """G(w) - rho (C(w) - s w + eta of what each draft adds beyond its average), one by one."""
    prefix, cost = rounds(seed, 1, 6)
    experts = torch.randint(0, 9, (7, 4), generator=torch.Generator().manual_seed(seed))
    p, rho, t = prefix[0], best_rate(prefix, cost, 1.0), tables(step, expert, 6, 4)
    w0 = 2 + seed % 6
    score = {}
    for w in range(2 if shrink else w0, 8):
        beyond = sum(t.given[v, int(new_experts(experts, v))] - t.mean[v] for v in range(1, w))
        ms = cost[w] - step * w + expert * float(beyond)
        score[w] = float(1 + p[: w - 1].sum() - rho * ms)
    chosen = int(reconsider(w0, experts, p, cost, rho, t, shrink=shrink))
    assert score[chosen] >= max(score.values()) - 1e-5  # the tables are float32


def test_the_wider_correction_by_hand():
    p = torch.tensor([0.9, 0.6, 0.4, 0.1])
    cost = torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0, 2.5])
    t = CorrectionTables(0.2, 0.1, torch.full((5,), 2.0), 2 * torch.arange(3.0).expand(5, -1))
    fresh = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]])  # each draft costs 0.3 + 0.2
    reused = torch.tensor([[0, 1], [0, 1], [0, 1], [0, 1], [0, 1]])  # each costs 0.3 - 0.2
    look = {"prefix": p, "cost": cost, "tables": t}
    assert int(reconsider(3, fresh, rho=1.0, shrink=True, **look)) == 3  # 0.6 > 0.5 > 0.4
    assert int(reconsider(4, fresh, rho=1.3, shrink=True, **look)) == 2  # 0.6 < 0.65
    assert int(reconsider(4, fresh, rho=1.3, shrink=False, **look)) == 4  # which it may not
    assert int(reconsider(2, reused, rho=1.3, shrink=False, **look)) == 4  # 0.4 > 0.13 > 0.1
    assert int(reconsider(2, reused[:3], rho=1.3, shrink=False, **look)) == 3  # all that was seen
    assert int(reconsider(5, reused[:2], rho=1.3, shrink=False, **look)) == 2
    assert int(reconsider(1, reused[:1], rho=1.3, shrink=True, **look)) == 1  # nothing was drafted


def test_a_tie_at_the_router_goes_to_the_shorter():
    p, cost = torch.full((3,), 0.5), torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0])
    t = CorrectionTables(0.0, 0.0, torch.zeros(4), torch.zeros(4, 3))
    experts = torch.tensor([[0, 1]] * 4)
    assert int(reconsider(3, experts, p, cost, 1.0, t, shrink=True)) == 2
    assert int(reconsider(3, experts, p, cost, 1.0, t, shrink=False)) == 3
