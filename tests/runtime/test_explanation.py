"""What is kept of a round's reasons, for policies of every kind."""

from __future__ import annotations

import torch

from hybridspec.core import Proposal
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.baselines import CascadePolicy, RatioPolicy
from hybridspec.policy.length import Choice
from hybridspec.policy.online import TRIAL, OnlinePolicy
from hybridspec.runtime.explain import explain

LINE = torch.tensor([[0.0, 1.0]]).expand(3, 2).contiguous()
# c is the confidence itself: its log-odds go through the logistic model unchanged
MODEL = AcceptanceModel(IsotonicCurves(LINE, LINE), torch.tensor([0.0, 1.0, 0, 0, 0, 0]))
COST = torch.tensor([0.0, 0.0, 1.0, 1.5, 2.0])
C = torch.tensor([0.9, 0.5, 0.25])
PROPOSAL = Proposal(torch.zeros(3, dtype=torch.long), C, torch.ones(3))
EXPERTS = torch.tensor([[0, 1], [1, 2], [3, 4], [0, 4]])


def test_a_ratio_rule_shows_tokens_a_ms_of_its_choices():
    policy = RatioPolicy(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]), (2, 4), longest=4)
    why = explain(policy, PROPOSAL, policy.select(PROPOSAL), EXPERTS[:2])
    p = [0.9, 0.45, 0.1125]
    torch.testing.assert_close(torch.tensor(why.prefix), torch.tensor(p))
    assert why.scores.keys() == {2, 4}
    assert abs(why.scores[2] - 1.9 / 2) + abs(why.scores[4] - (1 + sum(p)) / 4) < 1e-6  # float32
    assert max(why.scores, key=why.scores.__getitem__) == why.w0 == 2
    assert "w = 2, 4" in why.reason


def test_a_resting_policy_says_so():
    policy = OnlinePolicy(MODEL, COST, 1.0, 0.5, 1e-3, 4)
    for _ in range(TRIAL):
        choice = policy.select(PROPOSAL)
        assert "highest" in explain(policy, PROPOSAL, choice, EXPERTS).reason
        policy.observe(choice.w0, 0, 1.0)
    choice = policy.select(None)
    why = explain(policy, None, choice, EXPERTS[:1])
    assert why.reason.startswith("rests for 32 plain rounds")
    assert (why.w0, why.u, why.scores, why.new_experts) == (1, 1, {}, None)


def test_the_end_of_an_answer_is_no_rest():
    policy = OnlinePolicy(MODEL, COST, 1.0, 0.5, 5.0, 4)
    assert explain(policy, None, policy.select(None), EXPERTS[:1]).reason == "nothing was drafted"


def test_trials_and_the_winner():
    policy = CascadePolicy(lengths=(1, 2), trial=1, hold=3)
    said = []
    for _ in range(5):
        drafts = policy.drafts()
        choice = policy.select(PROPOSAL if drafts else None)
        said.append(explain(policy, None, choice, EXPERTS).reason)
        policy.observe(choice.w0, choice.w0 - 1, 1.0)
    assert [s.startswith("a trial") for s in said] == [True, True, False, False, False]
    assert "3 rounds more" in said[2]


def test_a_policy_of_ones_own_need_say_nothing():
    why = explain(object(), PROPOSAL, Choice(3), EXPERTS)  # type: ignore[arg-type]
    assert (why.reason, why.scores, why.new_experts) == ("", {}, 0)
