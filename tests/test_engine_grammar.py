"""Answers by a grammar: every system's are plain decoding's, and they are JSON."""

from __future__ import annotations

import json
from bisect import bisect_left

import pytest
import torch

pytest.importorskip("xgrammar")

from hybridspec import Engine, SamplingParams
from hybridspec.core import Proposal
from hybridspec.errors import OptionError, RequestError
from lossless import differences
from scripted import scripted_engine

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "tall"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
}
SAMPLING = {
    "greedy": {},
    "seeded": {"temperature": 1.0, "top_k": 40, "seed": 3},
    "penalised": {"presence_penalty": 0.7, "repetition_penalty": 1.1},
}
SYSTEMS = ("static:6", "dflash", "replayssm", "hybridspec", "cascade")
QUESTION = "Tell me about a person."


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(device="cpu", max_context=512)


@pytest.fixture(scope="module")
def grammar(engine):
    return engine.grammar(SCHEMA)


class Knowing:
    """Stands in for `propose`: says what is known to follow; the real block runs first."""

    def __init__(self, drafter, known: list[int]) -> None:
        self.real, self.known = drafter.propose, known

    def __call__(self, target, anchor, slot, drafts, *, scored=False) -> Proposal:
        made = self.real(target, anchor, slot, drafts, scored=scored)
        following = self.known[slot.length + 1 :][:drafts]
        tokens = made.tokens.clone()
        tokens[: len(following)] = torch.tensor(following)
        return Proposal(tokens, made.confidence, made.entropy)


@pytest.mark.parametrize("sampling", SAMPLING)
def test_every_system_gives_the_same_json(engine, grammar, sampling, monkeypatch):
    """With the drafter's own drafts, and with drafts that are always right."""
    params, prompt = SamplingParams(120, **SAMPLING[sampling]), engine.encode(QUESTION, chat=True)
    plain = engine.generate(prompt, params, system="ar", grammar=grammar)
    assert plain.finish_reason == "stop"
    said = json.loads(plain.text)
    assert list(said) == ["name", "age", "tags"]
    assert 0 <= said["age"] <= 120
    assert {*said["tags"]} <= {"kind", "tall"}
    for system in SYSTEMS:
        other = engine.generate(prompt, params, system=system, grammar=grammar)
        assert other.token_ids == plain.token_ids, system
    knowing = Knowing(engine.drafter, [*prompt, *plain.token_ids])
    monkeypatch.setattr(engine.drafter, "propose", knowing)
    whole = engine.generate(prompt, params, system="dflash", grammar=grammar)
    assert whole.token_ids == plain.token_ids
    assert all(r.accepted == r.w - 1 for r in whole.stats.rounds[:-1])


def test_every_system_gives_the_same_call(engine):
    """Where the answer may be one instead, and the model has a liking for its mark."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "look_up")]
    grammar = engine.grammar(SCHEMA, tools=tools)
    bias = {engine.tokenizer.token_id("<tool_call>"): 100}
    params = SamplingParams(24, logit_bias=bias, **SAMPLING["seeded"])
    prompt = engine.encode(QUESTION, chat=True)
    plain = engine.generate(prompt, params, system="ar", grammar=grammar)
    assert plain.text.startswith('<tool_call>\n{"name": "look')
    for system in SYSTEMS:
        other = engine.generate(prompt, params, system=system, grammar=grammar)
        assert other.token_ids == plain.token_ids, system


def test_any_object(engine):
    params = SamplingParams(150, temperature=0.8, seed=1)
    answer = engine.generate(QUESTION, params, chat=True, grammar=engine.grammar(None))
    assert answer.finish_reason == "stop"
    assert isinstance(json.loads(answer.text), dict)


def test_without_it_the_next_answer_is_as_ever(engine, grammar):
    params = SamplingParams(30)
    before = engine.generate(QUESTION, params, chat=True).token_ids
    engine.generate(QUESTION, params, chat=True, grammar=grammar)
    assert engine.generate(QUESTION, params, chat=True).token_ids == before


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_a_limit_cuts_it(engine, grammar, limit):
    whole = engine.generate(QUESTION, chat=True, grammar=grammar)
    cut = engine.generate(
        QUESTION, SamplingParams(limit), chat=True, grammar=grammar, system="dflash"
    )
    assert cut.token_ids == whole.token_ids[:limit]
    assert cut.finish_reason == "length"


def test_a_stop_string_cuts_it(engine, grammar):
    whole = engine.generate(QUESTION, chat=True, grammar=grammar).text
    params = SamplingParams(stop=('"age"',))
    cut = engine.generate(QUESTION, params, chat=True, grammar=grammar, system="dflash")
    assert cut.text == whole[: whole.index('"age"')]
    assert cut.finish_reason == "stop"


def thoughtful(engine, prompt) -> SamplingParams:
    """With just so much liking for </think> that it comes after a few tokens."""
    end = engine.tokenizer.token_id("</think>")

    def comes(liking: int) -> bool:
        params = SamplingParams(12, logit_bias={end: liking})
        return end in engine.generate(prompt, params, system="ar").token_ids

    least = bisect_left(range(100), True, key=comes)
    return SamplingParams(50, logit_bias={end: least})


def test_it_begins_where_a_thought_ends_in_the_middle_of_a_block(engine, monkeypatch):
    """Case: drafts [.., </think>, {, bad]: bad is refused in the very block where </think> is."""
    prompt, end = engine.encode(QUESTION, chat=True), engine.tokenizer.token_id("</think>")
    params, grammar = thoughtful(engine, prompt), engine.grammar(SCHEMA, after="</think>")
    plain = engine.generate(prompt, params, system="ar", grammar=grammar)
    at = plain.token_ids.index(end)
    assert 1 <= at <= 13  # within the first block
    assert engine.tokenizer.decode(plain.token_ids[at + 1 :]).startswith("{")
    bad = engine.tokenizer.encode("[")[0]
    known = [*prompt, *plain.token_ids[: at + 2], bad, bad]
    monkeypatch.setattr(engine.drafter, "propose", Knowing(engine.drafter, known))
    answer = engine.generate(prompt, params, system="dflash", grammar=grammar)
    assert answer.token_ids == plain.token_ids
    assert answer.stats.rounds[0].accepted == at + 1  # after the first token, through {
    assert differences(engine, [prompt], ["dflash"], params) == []  # without a grammar: as ever


def test_log_probabilities_are_of_the_model_without_the_grammar(engine, grammar):
    """The first token is forced; how likely it was is told all the same."""
    params = SamplingParams(1, logprobs=1)
    forced = engine.generate(QUESTION, params, chat=True, grammar=grammar).logprobs[0]
    free = engine.generate(QUESTION, params, chat=True).logprobs[0]
    assert forced.top == free.top
    assert forced.token_id != free.token_id
    assert forced.logprob < free.logprob


def test_what_cannot_go_with_a_grammar(engine, grammar):
    with pytest.raises(OptionError, match=r"^grammar is .*expected what Engine\.grammar gives"):
        engine.stream(QUESTION, grammar=SCHEMA)
    with pytest.raises(OptionError, match=r"^ignore_eos is True, but an answer by a grammar"):
        engine.stream(QUESTION, SamplingParams(ignore_eos=True), grammar=grammar)
    with pytest.raises(OptionError, match=r"^grammar is of another model"):
        scripted_engine().stream([1, 2], grammar=grammar)
    with pytest.raises(RequestError, match="no tokenizer"):
        scripted_engine().grammar(None)
    with pytest.raises(OptionError, match=r"^schema uses 'not'"):
        engine.grammar({"not": {}})


def test_a_checkpoint_without_an_end_needs_a_stop_id(engine, grammar, monkeypatch):
    from hybridspec.checkpoint import GenerationConfig

    monkeypatch.setattr(engine, "defaults", GenerationConfig(eos_token_ids=()))
    with pytest.raises(RequestError, match="names no end token"):
        engine.stream(QUESTION, grammar=grammar)
    params = SamplingParams(120, stop_token_ids=(8130, 300))
    answer = engine.generate(QUESTION, params, chat=True, grammar=grammar)
    assert answer.token_ids[-1] in (8130, 300)
