"""A prompt that goes on from a kept state is answered as by a run without it, to the bit."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.core import SamplingParams
from hybridspec.errors import OptionError
from hybridspec.runtime.prefix.parts import Point
from reused import CHUNK, MARK, ROOMY, answer, assert_alike, keeping, store, text_ids, tiny
from scripted import scripted_engine

GREEDY = SamplingParams(max_tokens=12)
SEEDED = SamplingParams(max_tokens=12, temperature=0.9, top_p=0.95, seed=5)
STEERED = dataclasses.replace(
    SEEDED, presence_penalty=0.7, repetition_penalty=1.3, logit_bias={7: 2.0}, logprobs=2
)
SYSTEMS = ["ar", "static:4", "dflash", "replayssm", "static:5:block"]


@pytest.fixture(scope="module")
def shared():
    return tiny()


@pytest.fixture
def engine(shared):
    store(shared).clear()
    return shared


def both(engine, prompt, params=GREEDY, system="dflash"):
    """The answer with reuse, which must be the one without; gives the former."""
    warm = answer(engine, prompt, params, system)
    assert_alike(warm, answer(engine, prompt, params, system, "none"))
    return warm[0]


@pytest.mark.parametrize("params", [GREEDY, SEEDED, STEERED], ids=["greedy", "seeded", "steered"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_same_prompt_three_times(engine, system, params):
    prompt = text_ids(70)
    answers = [both(engine, prompt, params, system) for _ in range(3)]
    assert [a.stats.cached_tokens for a in answers] == [0, 60, 60]
    assert len({a.token_ids for a in answers}) == 1


@pytest.mark.parametrize("k", [1, CHUNK - 1, CHUNK, CHUNK + 1, 39, 40, 41, 59, 60, 61, 69])
def test_prompts_that_part_at_a_token(engine, k):
    """At every side of a cut."""
    prompt = text_ids(70)
    both(engine, prompt)
    other = prompt[:k] + text_ids(70 - k, seed=4)
    assert other[k] != prompt[k]
    assert both(engine, other).stats.cached_tokens == k // CHUNK * CHUNK
    assert both(engine, prompt).stats.cached_tokens == 60


def test_a_cut_of_one_prompt_that_is_none_of_another(engine):
    """The state there has other bits than a run without it would have."""
    head = text_ids(30)
    both(engine, [*head, MARK, *head])
    assert both(engine, [*head, MARK, *head[:5]]).stats.cached_tokens == 30
    assert both(engine, [*head, 7, *head]).stats.cached_tokens == CHUNK


def talk(engine, turns: int, system: str, reuse: str, params=GREEDY):
    """A conversation that grows by an answer and a message a turn; each answer."""
    prompt, answers = [MARK, *text_ids(5)], []
    for turn in range(turns):
        given = answer(engine, [*prompt, MARK, 3], params, system, reuse)
        answers.append(given)
        said = list(given[0].token_ids[2:])  # a template drops what was thought
        prompt += [MARK, *said, MARK, *text_ids(3 + turn % 4, seed=turn)]
    return answers


@pytest.mark.parametrize("system", [pytest.param("static:4", marks=pytest.mark.full), "dflash"])
def test_forty_turns(system):
    engine = tiny(1 << 22)
    params = SamplingParams(max_tokens=4)
    warm = talk(engine, 40, system, "exact", params)
    for ours, theirs in zip(warm, talk(engine, 40, system, "none", params), strict=True):
        assert_alike(ours, theirs)
    cached = [a.stats.cached_tokens for a, _ in warm]
    assert cached == [0, *(a.prompt_tokens - 2 for a, _ in warm[:-1])]  # all but the opening


def test_systems_share_what_is_kept(engine):
    prompt = text_ids(70)
    both(engine, prompt, system="dflash")
    assert both(engine, prompt, system="ar").stats.cached_tokens == 60
    assert both(engine, prompt, SEEDED, "static:3").stats.cached_tokens == 60


def test_what_was_kept_without_a_drafter_serves_no_drafter(engine):
    prompt = text_ids(70)
    both(engine, prompt, system="ar")
    assert both(engine, prompt, system="dflash").stats.cached_tokens == 0
    assert both(engine, prompt, system="dflash").stats.cached_tokens == 60


def test_kept_states_share_no_memory_with_the_engine(engine):
    prompt = text_ids(70)
    both(engine, prompt)
    for node in store(engine).nodes():  # nor hold more than they count
        assert all(t.untyped_storage().nbytes() == t.nbytes for t in (*node.rows, *node.point))
    slots = [engine._state.gdn, engine._state.raw, engine._state.keys, engine._state.values]
    slots += [engine._drafter_state.full, engine._drafter_state.ring]
    for tensor in slots:
        tensor.fill_(3.0)
    assert both(engine, prompt).stats.cached_tokens == 60


def test_off_by_default():
    engine = scripted_engine()
    prompt = text_ids(70)
    for _ in range(2):
        assert answer(engine, prompt, GREEDY)[0].stats.cached_tokens == 0
    assert engine._prefixes.store is None


def test_none_neither_takes_nor_keeps(engine):
    prompt = text_ids(70)
    answer(engine, prompt, GREEDY, reuse="none")
    assert store(engine).nbytes == 0
    both(engine, prompt)
    assert answer(engine, prompt, GREEDY, reuse="none")[0].stats.cached_tokens == 0


def test_memory_is_bounded_and_answers_do_not_depend_on_it():
    state = Point.bytes_of(scripted_engine()._state.slot())
    for limit in (state, 3 * state, 8 * state):
        engine = tiny(limit)
        for turn in range(9):
            prompt = text_ids(25 + 11 * turn, seed=turn % 2)
            both(engine, prompt[:20] + text_ids(40 + turn, seed=turn % 3))
            assert store(engine).nbytes <= limit


def test_states_are_kept_while_the_prompt_is_within_memory(engine):
    small = tiny(store(engine).limit and 40_000)
    prompt = text_ids(350)
    both(small, prompt)
    again = both(small, prompt).stats.cached_tokens
    assert 0 < again < 340  # its last states did not fit beside its own rows
    both(engine, prompt)
    assert both(engine, prompt).stats.cached_tokens == 340


@pytest.mark.parametrize("system", ["ar", *SYSTEMS[1:]])
def test_an_answers_end_is_gone_on_from(engine, system):
    """Equal up to rounding: the answer was decoded, where a prompt is run in passes."""
    prompt = text_ids(33)
    first, _ = answer(engine, prompt, GREEDY, system, "near")
    whole = [*prompt, *first.token_ids]
    longer = [*whole, *text_ids(4, seed=8)]
    warm, mine = answer(engine, longer, GREEDY, system, "near")
    cold, law = answer(engine, longer, GREEDY, system, "none")
    assert warm.stats.cached_tokens == len(whole) - 1
    assert warm.token_ids == cold.token_ids
    for name, part in law.items():  # float32 in another order; a wrong token moves them by 0.1
        assert float((mine[name] - part).norm() / part.norm()) < 1e-4, name


def test_a_steered_answers_end_is_gone_on_from(engine):
    prompt = text_ids(33)
    first, _ = answer(engine, prompt, STEERED, reuse="near")
    longer = [*prompt, *first.token_ids, 4]
    warm, _ = answer(engine, longer, STEERED, reuse="near")
    assert warm.stats.cached_tokens == len(longer) - 2
    assert warm.token_ids == answer(engine, longer, STEERED, reuse="none")[0].token_ids


def test_what_follows_an_answers_end_is_not_taken_for_exact(engine):
    prompt = text_ids(33)
    first, _ = answer(engine, prompt, GREEDY, reuse="near")
    longer = [*prompt, *first.token_ids, *text_ids(40, seed=8)]
    assert answer(engine, longer, GREEDY, reuse="near")[0].stats.cached_tokens == 44
    assert both(engine, longer).stats.cached_tokens == CHUNK
    assert both(engine, longer).stats.cached_tokens == 80
    again = answer(engine, longer, GREEDY, reuse="near")[0]
    assert again.stats.cached_tokens == 80


def test_an_answer_that_keeps_to_exact_keeps_no_end(engine):
    prompt = text_ids(33)
    first = both(engine, prompt)
    longer = [*prompt, *first.token_ids, 4]
    assert answer(engine, longer, GREEDY, reuse="near")[0].stats.cached_tokens == CHUNK


def test_stops_inside_a_round_leave_the_end_of_the_kept_tokens():
    probe = tiny()
    prompt = text_ids(33)
    eos = answer(probe, prompt, GREEDY)[0].token_ids[6]
    engine = tiny(eos=(eos,))
    first, _ = answer(engine, prompt, GREEDY, "dflash", "near")
    assert first.finish_reason == "stop"
    longer = [*prompt, *first.token_ids, 5, 6]
    warm, _ = answer(engine, longer, GREEDY, "dflash", "near")
    assert warm.stats.cached_tokens == len(prompt) + len(first.token_ids) - 1
    assert warm.token_ids == answer(engine, longer, GREEDY, "dflash", "none")[0].token_ids


def test_the_contexts_end(engine):
    prompt = text_ids(395)
    params = dataclasses.replace(GREEDY, max_tokens=100)
    for _ in range(2):
        assert both(engine, prompt, params).finish_reason == "length"
    assert answer(engine, prompt, params, reuse="near")[0].stats.cached_tokens == 380


PIECES = st.lists(
    st.sampled_from([[MARK, 1, 2], [MARK, *range(9)], [4] * 17, [5, 6, 7]]), max_size=9
)


@settings(deadline=None, max_examples=25)
@given(
    prompts=st.lists(PIECES.map(lambda p: sum(p, [1])), min_size=2, max_size=6),
    system=st.sampled_from(SYSTEMS),
    chunk=st.integers(7, 30),
    memory=st.sampled_from([30_000, 100_000, ROOMY]),
    seeded=st.booleans(),
)
def test_any_prompts_that_share_beginnings(shared, prompts, system, chunk, memory, seeded):
    shared._prefixes.cuts = dataclasses.replace(shared._prefixes.cuts, chunk=chunk)
    kept = store(shared)
    kept.clear()
    kept.limit = memory
    try:
        for prompt in prompts:
            params = dataclasses.replace(SEEDED if seeded else GREEDY, max_tokens=4)
            both(shared, prompt, params, system)
            assert kept.nbytes <= memory
    finally:
        keeping(shared)
        kept.limit = ROOMY


@pytest.mark.parametrize("value", [-1, 1.5, "1 GiB", True])
def test_memory_is_a_number_of_bytes(value):
    with pytest.raises(OptionError, match=r"prefix_memory is .*; expected a number of bytes"):
        scripted_engine(prefix_memory=value)


def test_memory_for_less_than_a_state_is_refused():
    with pytest.raises(OptionError, match=r"prefix_memory is 100 bytes, and one state .* takes"):
        scripted_engine(prefix_memory=100)


@pytest.mark.parametrize("value", ["", "all", True, None])
def test_what_reuse_may_be(engine, value):
    with pytest.raises(OptionError, match=r"reuse is .*; expected exact or near or none"):
        engine.stream([1], reuse=value)
