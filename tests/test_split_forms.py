"""Whole answers in every form of a round: the same tokens, histograms and rounds (paper D.3).

`model/test_split.py` tests the same of a single verification, bit by bit.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

import pytest
import torch

from hybridspec.bench.forms import FORMS, Overwritten, Unsplit, running, sweep
from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.model.gdn import VERIFY
from hybridspec.model.target import Stage0, Target
from scripted import RIGHT, prompt_ids, script, scripted_engine
from test_catalogue import COST, PROFILE

PLANS = {"mixed": (0, 3, RIGHT, 1, 7, 2, RIGHT), "always right": (RIGHT,)}
SAMPLING = {"greedy": {}, "seeded": {"temperature": 0.8, "top_p": 0.95, "seed": 4}}
TOKENS = 60
# Rounds of w0 = 2, and equation 6 adds a third input exactly where it needs no other expert.
PEEKING = replace(
    PROFILE,
    cost={"exact/eager": replace(COST, rho=3.0)},
    eta_ms=1.0,
    n_all_given=((-100.0, 100.0, 100.0),) * 16,
)


@pytest.fixture(scope="module")
def engine():
    engine = scripted_engine(torch.float64)
    engine.profile = PEEKING
    return engine


def answers(engine, system, params):
    """Tokens, rounds, and histograms of A and of w, of every form."""
    found = {}
    for form in FORMS:
        with running(engine, form):
            answer = engine.generate(prompt_ids(), params, system=system())
        rounds = [(r.w, r.accepted, r.committed) for r in answer.stats.rounds]
        accepted, lengths = (Counter(r[i] for r in rounds) for i in (1, 0))
        found[form] = (answer.token_ids, rounds, accepted, lengths)
    return found


@pytest.mark.parametrize("form", VERIFY)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("sampling", SAMPLING)
def test_every_length_after_a_whole_stage_0(engine, sampling, plan, form):
    params = SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling])
    expected = script(engine, prompt_ids(), PLANS[plan], max_tokens=TOKENS, **SAMPLING[sampling])
    found = answers(engine, lambda: start(engine, PLANS[plan], sweep(16, form)), params)
    assert found["split"] == found["unsplit"] == found["overwritten"]
    assert found["split"][0] == expected
    if plan == "mixed":
        assert len(found["split"][3]) > 5  # lengths


@pytest.mark.parametrize("plan", PLANS)
def test_the_papers_policy(engine, plan):
    """Stage 0 of one input more than w0, and corrections of both outcomes."""
    params = SamplingParams(max_tokens=TOKENS)
    expected = script(engine, prompt_ids(), PLANS[plan], max_tokens=TOKENS)
    found = answers(engine, lambda: start(engine, PLANS[plan], "hybridspec:15"), params)
    assert found["split"] == found["unsplit"] == found["overwritten"]
    assert found["split"][0] == expected
    told = engine.generate(prompt_ids(), params, system="hybridspec:15", explain=True).stats.rounds
    assert {r.w - r.explanation.w0 for r in told[:-1]} == {0, 1}


def start(engine, plan, system):
    """The drafter from the first round of its plan."""
    engine.drafter.script(engine.drafter.sequence, plan)
    return system


@pytest.mark.parametrize("reads", ["stage 0", "state"])
def test_a_round_that_reads_past_w_is_seen(engine, monkeypatch, reads):
    """The control: a Stage 1 that mixes in what lies past w gives no tokens once that is spoilt."""
    stage1 = Target.stage1

    def careless(self, stage0, w, slot, verifier):
        if w < len(stage0.residual):
            if reads == "stage 0":
                mixed = stage0.residual.clone()
                mixed[:w] += 1e-3 * stage0.residual[w]
                stage0 = Stage0(mixed, *stage0[1:])
            else:
                slot.checkpoint[0] += 1e-3 * slot.layer(0, verifier).z[w].mean()
        return stage1(self, stage0, w, slot, verifier)

    script(engine, prompt_ids(), (RIGHT,), max_tokens=TOKENS)
    monkeypatch.setattr(Target, "stage1", careless)
    params = SamplingParams(max_tokens=TOKENS)
    with pytest.raises(HybridSpecError, match="logits at position"):  # not-a-number reached them
        answers(engine, lambda: sweep(16, "exact"), params)


def test_the_engine_has_its_own_target_back(engine):
    own, kinds = engine.target, []
    for form in FORMS:
        with contextlib.suppress(KeyError), running(engine, form):
            kinds.append(type(engine.target))
            raise KeyError
        assert engine.target is own
    assert kinds == [Target, Unsplit, Overwritten]
