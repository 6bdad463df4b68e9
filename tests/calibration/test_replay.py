"""Replay against the engine's own rounds and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hybridspec.calibration.capture import Capture
from hybridspec.calibration.replay import (
    CostModel,
    decide,
    distinct_pairs,
    expert_oracle_lengths,
    oracle_lengths,
    replay,
    replay_known,
    room,
)
from hybridspec.calibration.trace import Trace, joined
from hybridspec.core import SamplingParams
from hybridspec.policy.length import FixedLength
from scripted import scripted_engine

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
PARAMS = SamplingParams(max_tokens=60)
FLAT = CostModel(np.arange(17.0), 1.0)


@pytest.fixture(scope="module")
def pair():
    engine = scripted_engine()
    trace = Capture(engine.target, engine.drafter, 192).answer(0, PROMPT, (), 60)
    return engine, trace


@pytest.mark.parametrize("w", [1, 2, 3, 7, 16])
def test_a_fixed_length_walks_as_the_engine_does(pair, w):
    engine, trace = pair
    rounds = engine.generate(PROMPT, PARAMS, system=f"static:{w}").stats.rounds
    walk = replay(trace, FixedLength(w), FLAT)
    assert walk.w.tolist() == [r.w for r in rounds]
    assert walk.emitted.tolist() == [r.committed for r in rounds]
    assert walk.emitted.sum() == PARAMS.max_tokens - 1
    assert walk.rate == pytest.approx(walk.emitted.sum() / walk.w.sum())


def by_hand(accepted: list[int], left: int = 99) -> Trace:
    n = len(accepted)
    experts = np.arange(n * 2 * 4 * 1).reshape(n, 2, 4, 1).astype(np.uint16) % 3
    return Trace(np.zeros(n, np.int32), np.full(n, left, np.int32), np.ones((n, 3), np.float32),
                 np.ones((n, 3), np.float32), np.array(accepted, np.int16), experts)  # fmt: skip


def test_unverified_and_lost_drafts_by_hand():
    trace = by_hand([3, 0, 0, 0])
    walk = replay(trace, FixedLength(2), FLAT)
    assert walk.at.tolist() == [0, 2, 3]
    assert (walk.wasted, walk.lost) == (6, 2)  # two drafts unverified a round; two of the first fit


def test_a_price_follows_the_experts_that_were_really_there():
    trace = by_hand([0, 0])
    pairs = distinct_pairs(trace)
    assert pairs[0].tolist() == [0, 2, 4, 6, 6]
    curve = CostModel(np.full(5, 10.0), 1.0, 0.5, np.array([0.0, 2.0, 3.0, 5.0, 6.0]), 0.25)
    assert curve(2, 2, 4, 3) == 10.5
    assert curve(2, 3, 4, 3) == 10.75
    cheaper = replace(curve, saved_ms=np.array([9.0, 3.0, 1.0, 0.0]))
    assert cheaper(2, 2, 4, 1) == 7.5
    assert cheaper.curve(2).tolist() == [9.0] * 5


def test_what_is_left_bounds_a_decision():
    trace = by_hand([3, 3], left=2)
    assert decide(trace, FixedLength(4), 0, 2) == (1, 2, 2)
    assert decide(trace, FixedLength(4), 0, 9) == (3, 4, 4)
    assert decide(trace, FixedLength(1), 0, 2) == (0, 1, 1)


def test_the_oracle_verifies_what_is_accepted_where_that_pays():
    trace = by_hand([0, 1, 2, 3] * 5)
    cheap = oracle_lengths(trace, CostModel(np.array([0, 0, 1.0, 1.01, 1.02]), 1.0), 4)
    assert cheap.tolist() == [2, 2, 3, 4] * 5
    dear = oracle_lengths(trace, CostModel(np.array([0, 0, 1.0, 9.0, 90.0]), 1.0), 4)
    assert set(dear) == {2}


def test_no_fixed_length_beats_the_oracle():
    rng = np.random.default_rng(0)
    trace = by_hand(rng.integers(0, 4, 300).tolist())
    cost = CostModel(np.array([0, 0, 1.0, 1.3, 1.9]), 1.0)
    known = replay_known(trace, oracle_lengths(trace, cost, 4), cost)
    fixed = [replay(trace, FixedLength(4, w), cost).rate for w in (2, 3, 4)]
    assert known.rate > max(fixed)
    same = replay_known(trace, np.full(300, 3), cost)
    assert same.rate == replay(trace, FixedLength(4, 3), cost).rate


def test_known_experts_beat_average_ones_where_they_differ():
    """Drafts of odd positions bring a new expert in both layers, those of even positions none."""
    n = 200
    experts = np.zeros((n, 2, 4, 1), np.uint16)
    experts[1::2] = np.arange(4)[:, None]
    trace = replace(by_hand([3] * n), experts=experts, left=np.arange(n, 0, -1, dtype=np.int32))
    prefix = np.tile([0.5, 0.25, 0.125], (n, 1))
    mean = distinct_pairs(trace).mean(0)
    dear = CostModel(np.array([0, 0, 10.0, 10.5, 11.0]), 9.0, 0.4, mean)
    lengths = expert_oracle_lengths(trace, prefix, dear)
    # at 0.18 tokens a ms the last draft, of p = 0.125, may cost 0.7 ms
    assert set(lengths[::2]) == {4}  # 0.5 + 0.4 (0 - 1) = 0.1
    assert set(lengths[1::2]) == {3}  # 0.5 + 0.4 (2 - 1) = 0.9
    free = replace(dear, eta_ms=0.0)
    assert set(expert_oracle_lengths(trace, prefix, free)) == {4}


def test_an_answer_does_not_know_where_its_text_ends():
    """Three tokens follow the first anchor where the limit allows ten: drafts go past the end."""
    trace = replace(by_hand([0, 0, 0]), left=np.array([3, 2, 1], np.int32))
    assert room(trace, 11).tolist() == [10, 9, 8]
    assert room(trace, 4).tolist() == [3, 2, 1]
    assert room(trace, None).tolist() == [3, 2, 1]
    assert replay(trace, FixedLength(4), FLAT, 11).w.tolist() == [4, 4, 4]
    assert replay(trace, FixedLength(4), FLAT).w.tolist() == [3, 2, 1]
    two = replace(joined([trace, trace]), prompt=np.array([0, 0, 0, 1, 1, 1], np.int32))
    assert room(two, 11).tolist() == [10, 9, 8] * 2


def test_a_policy_that_learns_is_told_the_prices():
    seen = []

    class Learner(FixedLength):
        def observe(self, w, accepted, seconds):
            seen.append((w, accepted, seconds))

    replay(by_hand([1, 0, 0]), Learner(2), FLAT)
    assert seen == [(2, 1, 0.002), (2, 0, 0.002)]
