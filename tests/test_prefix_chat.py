"""Conversations with the embedded pair: turns go on from before the opening of the last answer."""

from __future__ import annotations

import pytest

from hybridspec import Engine, SamplingParams

GREEDY = SamplingParams(max_tokens=24)
SEEDED = SamplingParams(max_tokens=24, temperature=0.8, top_p=0.95, seed=11)
SAID = ["Hello", "What should I know about gardening?", "Tell me a story.", "And then?"]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.load(device="cpu", max_context=1024, prefix_memory=1 << 26)


@pytest.fixture(scope="module")
def plain() -> Engine:
    return Engine.load(device="cpu", max_context=1024)


def talk(engine: Engine, params: SamplingParams, system: str, **options):
    messages, answers = [], []
    for text in SAID:
        messages.append({"role": "user", "content": text})
        answers.append(engine.generate(messages, params, system=system, **options))
        messages.append({"role": "assistant", "content": answers[-1].text})
    return answers


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("system", ["ar", "static:4", "hybridspec", "replayssm"])
def test_every_turn_goes_on_from_the_last(engine, plain, system, params):
    engine._prefixes.store.clear()
    warm = talk(engine, params, system)
    opening = len(engine.encode("<|im_start|>assistant\n<think>\n\n</think>\n\n"))
    cached = [a.stats.cached_tokens for a in warm]
    assert cached == [0, *(a.prompt_tokens - opening for a in warm[:-1])]
    for others in (talk(engine, params, system, reuse="none"), talk(plain, params, system)):
        assert [a.token_ids for a in others] == [a.token_ids for a in warm]
        assert not any(a.stats.cached_tokens for a in others)
    for ours, theirs in zip(warm, talk(engine, params, system, reuse="none"), strict=True):
        assert ours.stats.rounds == theirs.stats.rounds


@pytest.mark.parametrize("system", ["ar", "dflash"])
def test_a_text_goes_on_from_an_answers_end(engine, system):
    """Up to rounding alone, so `near`; no near tie is met here."""
    ids, cached = engine.encode("The morning comes across the hill, and"), 0
    for _ in range(4):
        warm = engine.generate(ids, GREEDY, system=system, reuse="near")
        assert warm.stats.cached_tokens == cached
        assert warm.token_ids == engine.generate(ids, GREEDY, system=system, reuse="none").token_ids
        ids = [*ids, *warm.token_ids]
        cached = len(ids) - 1
        ids += engine.encode(" Then the next day")


def test_what_opens_a_message(engine):
    assert engine.tokenizer.opening_id() == engine.encode("<|im_start|>")[0]
