"""The learning policy in simulated worlds: a stale profile, and speculation that cannot pay."""

from __future__ import annotations

import random

import torch

from hybridspec.core import Proposal
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.online import TRIAL, Engagement, OnlinePolicy

D = 7
LINE = torch.tensor([[0.0, 1.0]]).expand(D, 2).contiguous()
# c = sigmoid(2.2): 0.9 at every position, whatever the drafter says
SURE = AcceptanceModel(IsotonicCurves(LINE, LINE), torch.tensor([2.2, 0.0, 0, 0, 0, 0]))
COST = torch.tensor([0.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0])


def policy(plain_ms: float = 5.0) -> OnlinePolicy:
    return OnlinePolicy(SURE, COST, 2.0, 0.35, plain_ms, D + 1)


def proposal() -> Proposal:
    c = torch.full((D,), 0.5)
    return Proposal(torch.zeros(D, dtype=torch.long), c, torch.ones(D))


def run(p: OnlinePolicy, truth: float, rounds: int, slow: float = 1.0) -> tuple[int, float, list]:
    """Tokens, ms and lengths of rounds in which each draft is accepted with one probability."""
    rng, tokens, ms, lengths = random.Random(0), 0, 0.0, []
    for _ in range(rounds):
        w = p.select(proposal() if p.drafts() else None).w0
        accepted = 0
        while accepted < w - 1 and rng.random() < truth:
            accepted += 1
        drafted = p._conditional is not None
        took = slow * (float(COST[w]) + 2.0) if drafted else p.plain_ms
        p.observe(w, accepted, took / 1e3)
        tokens, ms = tokens + accepted + 1, ms + took
        lengths.append(w)
    return tokens, ms, lengths


def test_an_optimistic_profile_corrects_itself():
    p = policy(plain_ms=1e9)  # speculation always pays: only the length is at stake
    _, _, lengths = run(p, 0.4, 600)
    assert sum(lengths[:20]) / 20 > 5
    assert sum(lengths[-200:]) / 200 < 4
    assert p.shift + p.offsets[0] < -1.5  # the truth is -2.6


def test_a_good_profile_is_left_alone():
    p = policy(plain_ms=1e9)
    _, _, lengths = run(p, 0.9, 600)
    assert sum(lengths[-200:]) / 200 > 5
    assert abs(p.shift) < 0.6  # random steps of 0.03 around nothing


def test_speculation_that_cannot_pay_costs_little():
    p = policy()
    tokens, ms, lengths = run(p, 0.05, 4000)
    plain = tokens * 5.0
    assert ms < 1.05 * plain  # "never slower beyond the cost of finding out"
    assert lengths.count(1) > 3500


def test_speculation_that_pays_again_is_found():
    p = policy()
    run(p, 0.02, 300)
    assert p.drafts() == 0
    tokens, ms, _ = run(p, 0.9, 2000)
    assert tokens / ms > 1.2 / 5.0


def test_a_new_answer_ends_a_rest_and_remembers_half_of_it():
    p = policy()
    run(p, 0.02, 1500)
    p.engagement.rest, p.engagement.next_rest = 700, 1024
    p.begin()
    assert p.drafts() == D
    assert (p.engagement.trial, p.engagement.next_rest) == (TRIAL, 512)
    for _ in range(8):
        p.begin()
    assert p.engagement.next_rest == 32


def test_rests_grow_and_shrink():
    e = Engagement()
    rests = []
    for _ in range(3):
        for _ in range(TRIAL):
            assert not e.rest
            e.observe(True, 1.0)
            e.judge(0.6)
        rests.append(e.rest)
        while e.rest:
            e.observe(False, 1.0)
    assert rests == [32, 64, 128]
    for _ in range(TRIAL):
        e.observe(True, 1.0)
        e.judge(1.4)
    assert (e.rest, e.next_rest) == (0, 32)


def test_a_machine_that_is_slower_at_both_changes_nothing():
    e = Engagement(trial=0)
    for _ in range(100):
        e.observe(True, 2.5)
    e.judge(1.1)
    assert e.rest == 0


def test_a_machine_that_is_slower_at_drafting_alone_is_found_out():
    e = Engagement(trial=0)
    for _ in range(100):
        e.observe(True, 2.0)
        e.observe(False, 1.0)
    e.judge(1.5)
    assert e.rest == 32


def test_the_last_token_of_an_answer_is_no_trial():
    """It has no draft to verify, and says nothing of speculation."""
    p = policy()
    run(p, 0.9, 50)
    before = p.rate, p._predicted
    for _ in range(20):
        p.select(None)
        p.observe(1, 0, 0.005)
    assert (p.rate, p._predicted) == before


def test_the_tail_is_looked_at_now_and_then():
    p = policy(plain_ms=1e9)
    _, _, lengths = run(p, 0.1, 640)
    assert lengths[200:].count(D + 1) >= 6


def test_far_contexts_where_1_57_tokens_a_round_are_accepted():
    """A drafter that loses the thread: short lengths where speculation is all there is, and no
    slower than plain decoding beyond the cost of finding out where it is not."""
    p = policy(plain_ms=1e9)
    _, _, lengths = run(p, 0.36, 1500)
    late = sorted(lengths[-500:])
    assert late[len(late) // 2] == 2
    assert sum(late) / len(late) < 3
    p = policy()
    tokens, ms, _ = run(p, 0.36, 4000)
    assert ms < 1.05 * tokens * 5.0
