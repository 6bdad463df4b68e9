"""The paper's policy as an object: what it reads, and when it looks at the router."""

from __future__ import annotations

import torch

from hybridspec.core import Proposal
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.policy.length import Choice
from hybridspec.policy.objective import CorrectionTables

LINE = torch.tensor([[0.0, 1.0]]).expand(3, 2).contiguous()
# c = sigmoid(20 ln(confidence / (1 - confidence))): near 1 above one half, near 0 below
MODEL = AcceptanceModel(IsotonicCurves(LINE, LINE), torch.tensor([0.0, 20.0, 0, 0, 0, 0]))
COST = torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0])
TABLES = CorrectionTables(0.6, 0.1, torch.full((4,), 2.0), torch.arange(3.0).expand(4, -1))


def proposal(*confidence: float) -> Proposal:
    c = torch.tensor(confidence)
    return Proposal(torch.zeros(len(c), dtype=torch.long), c, torch.ones_like(c))


def test_the_length_follows_the_calibrated_confidence():
    policy = ThroughputPolicy(MODEL, COST, 1.0, None, 4)
    assert policy.lookahead == 0
    assert policy.select(proposal(0.9, 0.9, 0.9)).w0 == 4
    assert policy.select(proposal(0.9, 0.9, 0.1)).w0 == 3
    assert policy.select(proposal(0.1, 0.9, 0.9)).w0 == 2
    assert policy.select(None).w0 == 1


def test_the_router_may_add_one_draft_and_never_removes_one():
    policy = ThroughputPolicy(MODEL, COST, 1.0, TABLES, 4)
    choice = policy.select(proposal(0.9, 0.9, 0.5 - 0.01))
    assert (policy.lookahead, choice.w0) == (1, 3)  # p_3 = 0.31 against 1.0 x 0.5
    reused = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]])
    fresh = torch.tensor([[0, 1], [1, 2], [2, 3], [4, 5]])
    assert policy.correct(choice, reused) == 4  # costs 0.5 - 0.6 + 0.1 (0 - 2) = -0.3
    assert policy.correct(choice, fresh) == 4  # costs 0.5 - 0.6 + 0.1 (2 - 2) = -0.1
    dear = ThroughputPolicy(MODEL, COST, 10.0, TABLES, 4)
    choice = dear.select(proposal(0.9, 0.9, 0.9))
    assert choice.w0 == 2  # a draft brings 1 and costs 10 x 0.5
    assert dear.correct(choice, reused) == 3  # but costs 10 x -0.3 now
    assert policy.correct(choice, reused[:2]) == 2  # Stage 0 ended before it


def test_without_tables_it_is_nominal_only():
    policy = ThroughputPolicy(MODEL, COST, 10.0, None, 4)
    reused = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]])
    assert policy.correct(policy.select(proposal(0.9, 0.9, 0.9)), reused) == 2


def test_beyond_the_paper_it_looks_further_and_shrinks():
    reused = torch.tensor([[0, 1], [0, 1], [0, 1], [0, 1]])
    dear = ThroughputPolicy(MODEL, COST, 10.0, TABLES, 4, ahead=2)
    choice = dear.select(proposal(0.9, 0.9, 0.9))
    assert (dear.lookahead, choice.w0) == (2, 2)
    assert dear.correct(choice, reused) == 4  # each draft costs 10 (0.5 - 0.6 + 0.1 (0 - 2))
    tables = CorrectionTables(0.0, 0.1, TABLES.mean, 10 * TABLES.given)
    shrinking = ThroughputPolicy(MODEL, COST, 1.0, tables, 4, shrink=True)
    choice = shrinking.select(proposal(0.9, 0.9, 0.9))
    fresh = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    assert choice.w0 == 4
    assert shrinking.correct(choice, fresh) == 2  # each draft costs 0.5 + 0.1 (20 - 2)
    assert shrinking.correct(choice, reused) == 4


def test_tensors_give_what_python_numbers_give():
    """A prefix on a device is a tensor; here a tensor on the CPU stands for it."""
    experts = torch.tensor([[0, 1], [1, 2], [2, 3], [0, 3]])
    for extra in ({}, {"ahead": 2}, {"shrink": True}):
        policy = ThroughputPolicy(MODEL, COST, 0.5, TABLES, 4, **extra)
        choice = policy.select(proposal(0.9, 0.6, 0.6))
        wide = Choice(choice.w0, torch.tensor(choice.prefix))
        for u in range(1, 5):
            assert policy.correct(wide, experts[:u]) == policy.correct(choice, experts[:u])
