"""One round against what it must do: splits of any kind, counts, and what it asks of the models."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import hybridspec.core
from builders import random_target
from committed import EXACT, assert_committed
from hybridspec.core import SamplingParams
from hybridspec.model.gdn import VERIFY
from hybridspec.policy.length import Choice
from hybridspec.runtime.check import distances
from hybridspec.runtime.round import HELD
from hybridspec.runtime.state import TargetState, W
from hybridspec.systems import System
from scripted import RIGHT, TINY, prompt_ids, run, script, scripted_engine

FORMS = tuple(VERIFY)
TARGET = random_target(TINY, dtype=torch.float64)
TEXT = torch.tensor(prompt_ids(200, seed=5))
WRONG = torch.tensor(prompt_ids(W, seed=6))  # drafts that are refused
ONE_RUN = {}


def new_slot():
    return TargetState(TINY, len(TEXT), dtype=torch.float64).slot()


def one_run(tokens):
    """The slot after one prefill of the first tokens of TEXT."""
    if tokens not in ONE_RUN:
        ONE_RUN[tokens] = new_slot()
        if tokens:
            TARGET.prefill(TEXT[:tokens], ONE_RUN[tokens])
    return ONE_RUN[tokens]


def verify(ids, slot, form):
    return TARGET.stage1(TARGET.stage0(ids, slot, form), len(ids), slot, form)


rounds = st.lists(
    st.tuples(st.integers(1, W), st.integers(0, W - 1), st.sampled_from(FORMS)),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=60)
@given(rounds=rounds, prompt=st.integers(0, 40))
def test_any_split_into_rounds_commits_the_same_states(rounds, prompt):
    """Verify w, keep m <= w, by either form in turn: as one prefill of the kept tokens."""
    slot = new_slot()
    if prompt:
        TARGET.prefill(TEXT[:prompt], slot)
    for w, m, form in rounds:
        m = min(m, w - 1) + 1
        kept = TEXT[slot.length : slot.length + m]
        verify(torch.cat((kept, WRONG[: w - m])), slot, form)
        slot.commit(m, form)
    for name, distance in distances(slot, one_run(slot.length)).items():
        assert distance < EXACT, name


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("prompt", [0, 1, 2, 3, 20])
def test_the_convolution_window_after_every_commit(form, prompt):
    """Bit for bit the last three raw columns of the kept tokens.

    The columns are those this verification computed, since another number of rows may round a CPU's
    product differently; that they are right to `EXACT` is tested above.
    """
    for m in range(1, W + 1):
        slot = new_slot()
        if prompt:
            TARGET.prefill(TEXT[:prompt], slot)
        verify(TEXT[prompt : prompt + W], slot, form)
        columns = slot.conv.clone()
        slot.commit(m, form)
        assert torch.equal(slot.conv[:, :3], columns[:, m : m + 3])
        assert torch.equal(columns[:, :3], one_run(prompt).conv[:, :3])


def test_prefill_runs_the_prompt_and_rounds_the_rest(monkeypatch):
    """No prompt token goes through verification, and no round through prefill."""
    monkeypatch.setattr(hybridspec.core, "PREFILL_CHUNK", 16)
    engine = scripted_engine()
    calls = []
    for name in ("prefill", "stage0", "stage1"):
        original = getattr(engine.target, name)

        def counted(first, *args, _name=name, _original=original):
            calls.append((_name, len(first if _name != "stage1" else first.residual)))
            return _original(first, *args)

        monkeypatch.setattr(engine.target, name, counted)
    stream = engine.stream(prompt_ids(35), SamplingParams(max_tokens=8), system="static:4")
    next(stream)
    assert calls == [("prefill", 16), ("prefill", 16), ("prefill", 3)]
    calls.clear()
    list(stream)
    assert {name for name, _ in calls} == {"stage0", "stage1"}
    assert all(size <= 4 for _, size in calls)


@pytest.mark.parametrize("plan", [(), (RIGHT,), (0, 5, RIGHT, 2)])
@pytest.mark.parametrize("system", ["ar", "static:1", "static:6", "dflash"])
@pytest.mark.parametrize("tokens", [1, 20, 37])
def test_the_figures_of_a_generation_add_up(system, plan, tokens):
    engine = scripted_engine()
    prompt = prompt_ids()
    script(engine, prompt, plan, max_tokens=tokens)
    answer, _ = run(engine, prompt, system, SamplingParams(max_tokens=tokens))
    rounds, stats = answer.stats.rounds, answer.stats
    longest = {"ar": 1, "static:1": 1, "static:6": 6, "dflash": 16}[system]
    assert all(r.accepted < r.w <= longest for r in rounds)
    assert all(r.committed == r.accepted + 1 for r in rounds[:-1])
    assert len(answer.token_ids) == 1 + sum(r.committed for r in rounds) == tokens
    before_trimming = 1 + sum(r.accepted + 1 for r in rounds)
    assert before_trimming == 1 + stats.mean_acceptance_length * len(rounds)
    assert before_trimming >= tokens
    assert stats.accepted == sum(r.accepted for r in rounds)
    histogram = [sum(r.accepted == a for r in rounds) for a in range(16)]
    assert sum(histogram) == len(rounds)
    assert sum(a * n for a, n in enumerate(histogram)) == stats.accepted


@dataclass(frozen=True)
class Corrected:
    """A policy that reads scores, looks ahead, and takes the longer length every other round."""

    longest: int = 16
    lookahead: int = 3
    scored: bool = True
    seen: list[int] = field(default_factory=list)

    def drafts(self) -> int:
        return self.longest - 1

    def select(self, proposal) -> Choice:
        if proposal is None:
            return Choice(1)
        assert proposal.confidence is not None
        assert proposal.entropy is not None
        return Choice(1 + len(self.seen) % (self.longest - self.lookahead))

    def correct(self, choice: Choice, experts: Tensor) -> int:
        self.seen.append(len(experts))
        return choice.w0 + (self.lookahead if len(self.seen) % 2 else 0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan", [(), (RIGHT,), (0, 5, RIGHT, 2)])
def test_a_policy_may_look_ahead_and_correct(monkeypatch, form, plan):
    """Stage 0 runs w0 + 3 tokens, Stage 1 fewer; tokens and states are plain decoding's."""
    engine, prompt, policy = scripted_engine(torch.float64), prompt_ids(), Corrected()
    expected = script(engine, prompt, plan, max_tokens=150)
    monkeypatch.setattr("hybridspec.engine.parse_system", lambda *_: System("own", policy, form))
    answer, stream = run(engine, prompt, "own", SamplingParams(max_tokens=150))
    assert answer.token_ids == expected
    assert_committed(engine, stream, [*prompt, *expected[:-1]])
    assert max(policy.seen) == 16
    lengths = [(r.w, u) for r, u in zip(answer.stats.rounds, policy.seen, strict=True)]
    assert all(u - w == 3 * (i % 2) for i, (w, u) in enumerate(lengths[:8]))  # none cut by the end


def test_a_draft_more_than_remains_is_not_asked_for(monkeypatch):
    """Rounds near the limit verify no more inputs than tokens may still be emitted."""
    engine, prompt, asked = scripted_engine(), prompt_ids(), []
    script(engine, prompt, (RIGHT,), max_tokens=21)
    propose = engine.drafter.propose

    def watched(target, anchor, slot, drafts, **options):
        asked.append(drafts)
        return propose(target, anchor, slot, drafts, **options)

    monkeypatch.setattr(engine.drafter, "propose", watched)
    answer, _ = run(engine, prompt, "dflash", SamplingParams(max_tokens=21))
    assert [r.w for r in answer.stats.rounds] == [16, 4]
    assert asked == [15, 3]


@dataclass
class Seldom:
    """Rests for some rounds, then drafts a block once, and so on. Told of each new answer."""

    rest: int
    longest: int = 16
    lookahead: int = 0
    scored: bool = False
    rounds: int = 0
    answers: int = 0

    def begin(self) -> None:
        self.answers, self.rounds = self.answers + 1, 0

    def drafts(self) -> int:
        self.rounds += 1
        return 0 if self.rounds % (self.rest + 1) else self.longest - 1

    def select(self, proposal) -> Choice:
        return Choice(1 if proposal is None else len(proposal.tokens) + 1)

    def correct(self, choice: Choice, experts: Tensor) -> int:
        return choice.w0


@pytest.mark.parametrize("rest", [1, 5, HELD, HELD + 9])
def test_a_drafter_that_rested_has_seen_every_token(monkeypatch, rest):
    """Its context, given late and in larger pieces, is that of one prefill of the same tokens."""
    engine, prompt, policy = scripted_engine(torch.float64), prompt_ids(), Seldom(rest)
    expected = script(engine, prompt, (), max_tokens=150)
    propose, seen = engine.drafter.propose, []

    def watched(target, anchor, slot, drafts, **options):
        seen.append((slot.length, slot.full[:, :, :, : slot.length].clone(), slot.ring.clone()))
        return propose(target, anchor, slot, drafts, **options)

    monkeypatch.setattr(engine.drafter, "propose", watched)
    own = System("own", policy, "exact")
    answer = engine.generate(prompt, SamplingParams(max_tokens=150), system=own)
    assert answer.token_ids == expected
    assert len(seen) >= 150 // (rest + 16)
    late = seen.copy()
    for length, full, _ in late:
        engine.generate(
            [*prompt, *expected][:length], SamplingParams(max_tokens=3), system="dflash"
        )
        assert seen[-1][0] == length
        assert torch.allclose(full, seen[-1][1], atol=1e-12)  # float64, other sizes of products


def test_a_policy_is_told_of_each_new_answer():
    engine, policy = scripted_engine(), Seldom(3)
    for _ in range(2):
        engine.generate(
            prompt_ids(), SamplingParams(max_tokens=4), system=System("o", policy, "exact")
        )
    assert policy.answers == 2


def test_plain_decoding_never_calls_the_drafter(monkeypatch):
    engine = scripted_engine()
    for name in ("propose", "extend"):
        monkeypatch.setattr(engine.drafter, name, None)
    for system in ("ar", "static:1"):
        run(engine, prompt_ids(), system, SamplingParams(max_tokens=5))


@pytest.mark.parametrize("temperature", [0.0, 0.6, 1.0, 5.0])
def test_the_drafter_proposes_its_most_likely_tokens_at_any_temperature(temperature, monkeypatch):
    engine, proposals = scripted_engine(), []
    rows = []
    logits, propose = engine.target.logits, engine.drafter.propose

    def watched(*args, **kwargs):
        monkeypatch.setattr(engine.target, "logits", lambda x: rows.append(logits(x)) or rows[-1])
        proposals.append(propose(*args, **kwargs))
        monkeypatch.setattr(engine.target, "logits", logits)
        return proposals[-1]

    monkeypatch.setattr(engine.drafter, "propose", watched)
    params = SamplingParams(max_tokens=6, temperature=temperature, seed=0)
    run(engine, prompt_ids(), "dflash", params)
    assert len(proposals) >= 1
    for proposal, row in zip(proposals, rows, strict=True):
        assert proposal.tokens.tolist() == row.argmax(-1).tolist()
