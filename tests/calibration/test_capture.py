"""A dense trace against the engine's own runs of the same prompt."""

from __future__ import annotations

import numpy as np
import pytest

from hybridspec.calibration.capture import Capture
from hybridspec.core import SamplingParams
from scripted import scripted_engine

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
LENGTH = 40


@pytest.fixture(scope="module")
def pair():
    """An engine and the dense trace of its answer, from a drafter that errs on order."""
    engine = scripted_engine()
    plain = engine.generate(PROMPT, SamplingParams(max_tokens=LENGTH), system="ar").token_ids
    engine.drafter.script([*PROMPT, *plain], [99])
    trace = Capture(engine.target, engine.drafter, 192).answer(7, PROMPT, (), LENGTH)
    return engine, plain, trace


def test_every_position_but_the_last_begins_a_round(pair):
    _, plain, trace = pair
    assert len(trace) == len(plain) - 1
    assert set(trace.prompt) == {7}
    assert trace.left.tolist() == list(range(LENGTH - 1, 0, -1))


def test_a_drafter_that_knows_the_answer_is_accepted_to_its_end(pair):
    """The plan is right everywhere it knows the answer, and proposes 0 beyond it."""
    _, _, trace = pair
    assert (trace.accepted >= np.minimum(trace.left, trace.drafts)).all()


def test_the_walk_at_w_16_is_a_run_of_dflash():
    engine = scripted_engine()
    params = SamplingParams(max_tokens=LENGTH)
    trace = Capture(engine.target, engine.drafter, 192).answer(0, PROMPT, (), LENGTH)
    rounds = engine.generate(PROMPT, params, system="dflash").stats.rounds
    walk = trace.walk(16)
    assert len(walk) == len(rounds)
    whole = trace.whole[walk]
    ran = np.array([r.accepted for r in rounds])
    assert (trace.accepted[walk][whole] == ran[whole]).all()


def test_experts_are_those_of_every_layer_and_input(pair):
    engine, _, trace = pair
    config = engine.target.config
    shape = (len(trace), config.num_hidden_layers, 16, config.num_experts_per_tok)
    assert trace.experts.shape == shape
    assert trace.experts.max() < config.num_experts
    ordered = np.sort(trace.experts, -1)
    assert (np.diff(ordered.astype(int), axis=-1) > 0).all()  # distinct in a row
    # the anchor of a round that follows an accepted draft was that draft's row before
    same = trace.experts[1:, :, 0] == trace.experts[:-1, :, 1]
    assert same[(trace.accepted[:-1] >= 1)].all()


def test_a_stop_id_ends_the_answer(pair):
    engine, plain, _ = pair
    at = 12
    stop = plain[at]
    first = plain.index(stop)
    trace = Capture(engine.target, engine.drafter, 192).answer(0, PROMPT, {stop}, LENGTH)
    assert len(trace) == first
