"""eta learnt on line, in simulated rounds whose eta is known and changes."""

from __future__ import annotations

import random

import pytest
import torch
from test_online import COST, SURE, D, proposal

from hybridspec.policy.length import Choice
from hybridspec.policy.objective import CorrectionTables
from hybridspec.policy.online_correction import CorrectedOnlinePolicy, ExpertCost

SLOPE = 9.0  # later pairs a new layer-0 expert, as the paper has it
MEAN = torch.full((D + 1,), 2 * (1 + SLOPE))
GIVEN = ((1 + SLOPE) * torch.arange(5.0)).expand(D + 1, -1)


def policy(eta: float) -> CorrectedOnlinePolicy:
    tables = CorrectionTables(0.05, eta, MEAN, GIVEN)
    return CorrectedOnlinePolicy(SURE, COST, 2.0, 0.35, 1e9, D + 1, tables=tables)


def run(p: CorrectedOnlinePolicy, eta: float, rounds: int, *, slow: float = 1.0, seed: int = 0):
    """Rounds whose times follow eta, the experts that really came and 2% of noise."""
    rng = random.Random(seed)
    for _ in range(rounds):
        choice = p.select(proposal())
        u = min(choice.w0 + p.lookahead, D + 1)
        fresh = [rng.choice((0, 1, 2, 3, 4)) for _ in range(u)]
        rows = [[100 * v + j if j < n else j for j in range(4)] for v, n in enumerate(fresh, 1)]
        w = min(p.correct(choice, torch.tensor([[0, 1, 2, 3], *rows[1:]])), u)
        pairs = sum((1 + SLOPE) * (n - 2) + rng.gauss(0, 8) for n in fresh[1:w])
        took = slow * (float(COST[w]) + 2.0 + eta * pairs) * rng.gauss(1, 0.02)
        accepted = 0
        while accepted < w - 1 and rng.random() < 0.9:
            accepted += 1
        p.observe(w, accepted, took / 1e3)


@pytest.mark.parametrize(("start", "truth"), [(0.004, 0.016), (0.02, 0.005), (0.0, 0.01)])
def test_a_changed_eta_is_recovered(start, truth):
    p = policy(start)
    run(p, truth, 1500)
    # 200 rounds count; noise of 0.3 ms against 26 pairs a round leaves about 0.001 of error
    assert p.expert_cost.eta == pytest.approx(truth, abs=0.002)
    run(p, start, 1500, seed=1)
    assert p.expert_cost.eta == pytest.approx(start, abs=0.002)


def test_a_slower_machine_is_no_dearer_expert():
    p = policy(0.01)
    run(p, 0.01, 1500, slow=2.5)
    assert p.expert_cost.eta == pytest.approx(0.01, abs=0.002)  # as above


def test_a_round_that_was_interrupted_counts_little():
    cost = ExpertCost(0.01, 20.0)
    cost.observe(5000.0, 10.0, 30.0)
    assert cost.eta < 0.03  # taken at its word: 4990 ms over 30 pairs


def test_experts_that_make_no_difference_are_free_and_never_less():
    p = policy(0.01)
    run(p, -0.01, 800)
    assert p.expert_cost.eta == 0.0


def test_the_correction_takes_the_eta_of_now():
    p = policy(0.05)
    choice = p.select(proposal())
    cheap = Choice(2, [0.9, 0.3] + [0.01] * 5)
    fresh = torch.tensor([[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]])
    assert choice.w0 > 2
    # 0.3 against 0.35 x (1 - 0.05 + eta x 20): 0.68 at eta 0.05; at eta -0, 0.33
    assert p.correct(cheap, fresh) == 2
    reused = torch.tensor([[0, 1, 2, 3]] * 3)
    assert p.correct(cheap, reused) == 3  # 0.35 x (0.95 - 0.05 x 20) < 0
    p.expert_cost.eta = 0.0
    assert p.correct(cheap, reused) == 2  # 0.35 x 0.95 = 0.33: reuse saves nothing


def test_a_round_without_drafts_is_neither_corrected_nor_learnt_from():
    p = policy(0.01)
    choice = p.select(None)
    assert p.correct(choice, torch.tensor([[0, 1, 2, 3]])) == 1
    p.observe(1, 0, 9.0)
    assert p.expert_cost.eta == pytest.approx(0.01)
    assert p.lookahead == 1
