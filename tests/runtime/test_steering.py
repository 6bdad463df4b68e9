"""Penalties and bias inside a verified block: every system gives what plain decoding gives."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from committed import assert_committed
from hybridspec.core import SamplingParams
from hybridspec.kernels.sampling import naive
from hybridspec.policy.length import Choice
from hybridspec.runtime.round import Rounds
from hybridspec.runtime.sampling import target_tokens
from hybridspec.runtime.state import TargetState
from hybridspec.systems import System
from lossless import differences
from scripted import RIGHT, TINY, prompt_ids, run, script, scripted_engine
from test_catalogue import PROFILE

SAMPLING = {
    "greedy": {},
    "seeded": {"temperature": 0.8, "top_p": 0.95, "top_k": 60, "seed": 4},
}
# A random model seldom repeats itself; with a liking for few tokens it does, and penalties bite.
LIKED = {"logit_bias": dict.fromkeys(range(5, 512, 50), 4.0)}
STEERED = {
    "bias": LIKED,
    "presence": {"presence_penalty": 1.5, **LIKED},
    "frequency": {"frequency_penalty": 0.4, **LIKED},
    "repetition": {"repetition_penalty": 1.3, **LIKED},
    "rewards": {"presence_penalty": -1.0, "repetition_penalty": 0.8},
    "all": {
        "presence_penalty": 0.6,
        "frequency_penalty": 0.3,
        "repetition_penalty": 1.2,
        "logit_bias": ((3, 4.0), (200, 4.5), (499, -100.0)),
    },
}
SYSTEMS = (
    *("static:2", "static:16", "static:5:block", "dflash", "replayssm", "ema", "cascade"),
    *("hybridspec", "auto", "dcut", "evict", "evict+replayssm", "specdecpp:0.5"),
)
TOKENS = 40


@pytest.fixture(scope="module")
def engine():
    """In float64, where systems meet no near tie."""
    engine = scripted_engine(torch.float64)
    engine.profile = PROFILE
    return engine


def reference(engine, prompt: list[int], params: SamplingParams) -> tuple[int, ...]:
    """Plain decoding by the book: a fresh prefill a token, the whole history counted anew."""
    answer: list[int] = []
    bias = torch.zeros(TINY.vocab_size)
    for token, value in params.logit_bias:
        bias[token] = value
    penalties = naive.Penalties(
        params.repetition_penalty, params.presence_penalty, params.frequency_penalty
    )
    for _ in range(params.max_tokens):
        ids = torch.tensor([*prompt, *answer])
        slot = TargetState(engine.target.config, 100, dtype=engine.target.dtype).slot()
        logits = engine.target.prefill(ids, slot).logits
        own = torch.bincount(torch.tensor(answer).long(), minlength=TINY.vocab_size)
        seen = torch.bincount(ids, minlength=TINY.vocab_size)
        row = naive.adjust(logits, ids[-1:], seen, own, penalties, bias)
        place = torch.tensor([len(ids)])
        answer.append(int(target_tokens(row, place, params, params.seed or 0)))
    return tuple(answer)


@pytest.mark.parametrize("steered", STEERED)
@pytest.mark.parametrize("sampling", SAMPLING)
def test_with_drafts_that_are_always_right(engine, sampling, steered):
    """Case: a block of 16 is accepted whole, so each row must have seen the drafts before it."""
    params = SamplingParams(max_tokens=TOKENS, **SAMPLING[sampling], **STEERED[steered])
    prompt = prompt_ids()
    expected = reference(engine, prompt, params)
    assert script(engine, prompt, (RIGHT,), max_tokens=TOKENS, **SAMPLING[sampling],
                  **STEERED[steered]) == expected  # fmt: skip
    answer, stream = run(engine, prompt, "dflash", params)
    assert answer.token_ids == expected
    assert [r.accepted for r in answer.stats.rounds] == [15, 15, 6]
    assert_committed(engine, stream, [*prompt, *expected[:-1]])


def test_the_cases_differ_from_one_another(engine):
    """They would show nothing if penalties were too small to change a token."""
    prompt = prompt_ids()
    answers = [
        run(engine, prompt, "ar", SamplingParams(max_tokens=TOKENS, **s))[0].token_ids
        for s in ({}, *STEERED.values())
    ]
    assert len(set(answers)) == len(answers)


@pytest.mark.parametrize("steered", [pytest.param("presence", marks=pytest.mark.full), "all"])
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("plan", [(), (0, 3, RIGHT, 1, 7, 2, RIGHT)], ids=["random", "mixed"])
def test_every_system_gives_the_tokens_of_ar(engine, plan, sampling, steered):
    asked = {**SAMPLING[sampling], **STEERED[steered]}
    script(engine, prompt_ids(), plan, max_tokens=TOKENS, **asked)
    params = SamplingParams(max_tokens=TOKENS, **asked)
    assert differences(engine, [prompt_ids()], SYSTEMS, params) == []


def test_what_an_answer_counted_is_forgotten_with_it(engine):
    params, prompt = SamplingParams(max_tokens=TOKENS, **STEERED["all"]), prompt_ids()
    first = engine.generate(prompt, params, system="static:4").token_ids
    engine.generate(prompt_ids(30, seed=2), params, system="static:4")
    assert engine.generate(prompt, params, system="static:4").token_ids == first


def test_only_what_the_stop_rule_keeps_is_counted(engine):
    """A stop inside a block; tokens after it were verified but never said."""
    prompt = prompt_ids()
    expected = script(engine, prompt, (RIGHT,), max_tokens=TOKENS, **STEERED["frequency"])
    params = SamplingParams(TOKENS, **STEERED["frequency"], stop_token_ids=(expected[20],))
    answer, stream = run(engine, prompt, "dflash", params)
    assert answer.token_ids == expected[: expected.index(expected[20]) + 1]
    counted = stream._rounds._steering.adjustment._answered
    wanted = torch.bincount(torch.tensor(answer.token_ids), minlength=TINY.vocab_size)
    assert torch.equal(counted, wanted.int())


@dataclass
class Learner:
    """A policy that keeps what it is told."""

    longest: int = 4
    lookahead: int = 0
    scored: bool = False
    told: list[int] = field(default_factory=list)

    def drafts(self) -> int:
        return 3

    def select(self, proposal) -> Choice:
        return Choice(1 if proposal is None else 4)

    def correct(self, choice: Choice, experts: torch.Tensor) -> int:
        return choice.w0

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        self.told.append(accepted)


@pytest.mark.parametrize(("asked", "learns"), [({}, True), ({"logprobs": 1}, True),
                                               ({"presence_penalty": 1.0}, False),
                                               ({"logit_bias": {3: 1.0}}, False)])  # fmt: skip
def test_what_learns_keeps_nothing_of_tokens_that_are_not_the_models_own(engine, asked, learns):
    policy = Learner()
    stream = engine.stream(
        prompt_ids(), SamplingParams(12, **asked), system=System("own", policy, "exact")
    )
    list(stream)
    assert bool(policy.told) == learns
    used = stream._rounds.system.policy
    assert len(used.told) == len(stream.result().stats.rounds)  # meanwhile it does learn


def test_who_asks_for_nothing_has_the_plain_rounds(engine):
    stream = engine.stream(prompt_ids(), SamplingParams(2, temperature=1.0, top_p=0.5))
    stream.close()
    assert type(stream._rounds) is Rounds
