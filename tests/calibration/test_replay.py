"""Replay against the engine's own rounds and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hybridspec.calibration.capture import Capture
from hybridspec.calibration.replay import (
    CostModel,
    decide,
    distinct_pairs,
    oracle_lengths,
    replay,
    replay_known,
)
from hybridspec.calibration.trace import Trace
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
    assert curve(2, 2, 4) == 10.5
    assert curve(2, 3, 4) == 10.75


def test_what_is_left_bounds_a_decision():
    trace = by_hand([3, 3], left=2)
    assert decide(trace, FixedLength(4), 0) == (True, 2, 2)
    assert decide(trace, FixedLength(1), 0) == (False, 1, 1)


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


def test_a_policy_that_learns_is_told_the_prices():
    seen = []

    class Learner(FixedLength):
        def observe(self, w, accepted, seconds):
            seen.append((w, accepted, seconds))

    replay(by_hand([1, 0, 0]), Learner(2), FLAT)
    assert seen == [(2, 1, 0.002), (2, 0, 0.002)]
