"""The engine as its user sees it: prompts, limits, answers, seeds, and one answer at a time."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import hybridspec
from builders import random_target
from disk_pair import write_pair
from hybridspec.core import Generation, SamplingParams
from hybridspec.engine import CALIBRATED_SYSTEM, DEFAULT_SYSTEM, MOST_SYSTEMS, Engine
from hybridspec.errors import CheckpointError, HybridSpecError, RequestError
from hybridspec.placement import DTYPES
from hybridspec.runtime.philox import MASK
from hybridspec.stream import Piece
from scripted import RIGHT, TINY, prompt_ids, run, script, scripted_engine

HOT = SamplingParams(max_tokens=25, temperature=1.0)


@pytest.fixture(scope="module")
def engine():
    return scripted_engine()


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("pair"), "cycle")


@pytest.fixture(scope="module")
def speaker(pair):
    """A loaded pair that says CYCLE after a newline."""
    return hybridspec.Engine.load(pair.target, pair.draft, device="cpu", progress=False)


# Prompts


def test_text_ids_and_messages_say_the_same(speaker):
    """The same prompt in three forms, and a chat through the template."""
    params = SamplingParams(max_tokens=8)
    by_text = speaker.generate("x\n", params)
    by_ids = speaker.generate(speaker.encode("x\n"), params)
    by_tuple = speaker.generate(tuple(speaker.encode("x\n")), params)
    assert by_text.text == by_ids.text == by_tuple.text == "abcdefgh"
    message = [{"role": "user", "content": "x"}]
    asked = speaker.encode("x", chat=True)
    assert asked == speaker.encode(message) != speaker.encode("x")
    chat, messages = speaker.generate("x", params, chat=True), speaker.generate(message, params)
    assert chat.token_ids == messages.token_ids
    assert chat.prompt_tokens == messages.prompt_tokens == len(asked)


def test_thinking_is_the_templates_choice(speaker):
    off, on = (speaker.encode("x", chat=True, enable_thinking=t) for t in (False, True))
    assert len(off) > len(on)  # an empty thought is written out
    assert speaker.encode("x", chat=True) == off


@pytest.mark.parametrize("prompt", ["", " \n", [], (), [{}], [{"content": "x"}]])
def test_prompts_with_nothing_in_them(speaker, prompt):
    with pytest.raises(RequestError, match=r"empty|has no role"):
        speaker.generate(prompt)


@pytest.mark.parametrize("wrong", [-1, TINY.vocab_size, 10**30])
def test_ids_out_of_range(engine, wrong):
    with pytest.raises(RequestError, match=f"token id {wrong}; expected 0 to 511"):
        engine.generate([1, 2, wrong, 3])


@pytest.mark.parametrize("kind", ["image", "image_url", "video", None])
def test_what_is_not_text_is_refused(speaker, kind):
    """A template would write a placeholder that nothing fills."""
    content = [{"type": "text", "text": "what is this?"}, {"type": kind}]
    with pytest.raises(RequestError, match="only text is supported"):
        speaker.generate([{"role": "user", "content": content}])


def test_text_needs_a_tokenizer(engine):
    for prompt in ("text", [{"role": "user", "content": "x"}]):
        with pytest.raises(RequestError, match="no tokenizer; give the prompt as token ids"):
            engine.generate(prompt)
    with pytest.raises(RequestError, match="Stop strings need a tokenizer"):
        engine.generate([1], SamplingParams(stop=("x",)))


def test_tokens_without_a_tokenizer_have_no_text(engine):
    answer = engine.generate(prompt_ids(), SamplingParams(max_tokens=4))
    assert (answer.text, len(answer.token_ids)) == ("", 4)


# Limits


@pytest.mark.parametrize("length", [192, 193, 1000])
def test_a_prompt_that_leaves_no_room(engine, length):
    with pytest.raises(RequestError, match=f"has {length} tokens and the context 192"):
        engine.generate(prompt_ids(length))


def test_the_longest_prompt_gets_one_token(engine):
    answer = engine.generate(prompt_ids(191), SamplingParams(max_tokens=50))
    assert (len(answer.token_ids), answer.finish_reason) == (1, "length")


@pytest.mark.parametrize("context", [1, 0, -5, 1025])
def test_contexts_out_of_range(context):
    with pytest.raises(RequestError, match=f"max_context is {context}; expected 2 to 1024"):
        Engine(random_target(TINY), max_context=context)


def test_contexts_in_range():
    target = random_target(TINY)
    assert Engine(target).max_context == 1024
    assert Engine(target, max_context=2).max_context == 2
    long = random_target(dataclasses.replace(TINY, max_position_embeddings=10**6))
    assert Engine(long).max_context == 32768
    assert Engine(long, max_context=40_000).max_context == 40_000


def test_a_longer_context_answers_alike():
    """Nothing but the room depends on the context asked for."""
    answers = {
        scripted_engine(max_context=c)
        .generate(prompt_ids(), SamplingParams(max_tokens=20))
        .token_ids
        for c in (29, 100, 1024)
    }
    assert len(answers) == 1


def test_memory_in_bytes():
    small, large = (scripted_engine(max_context=c).nbytes for c in (100, 1000))
    # keys and values, in 4 bytes, of two full layers with 2 heads of 16 in the target and one with
    # 2 heads of 8 in the drafter; its ring is full at 24
    assert large - small == 900 * 2 * 4 * (2 * 2 * 16 + 2 * 8)
    alone = Engine(random_target(TINY), max_context=100)
    assert alone.nbytes == alone._state.nbytes < small


# Answers


def test_the_fields_of_an_answer(engine):
    script(engine, prompt_ids(), (2,), max_tokens=14)
    answer, stream = run(engine, prompt_ids(), "static:4", SamplingParams(max_tokens=14))
    assert isinstance(answer, Generation)
    assert len(answer.token_ids) == 14
    assert answer.finish_reason == "length"
    assert answer.prompt_tokens == 9
    assert answer.system == "static:4"
    assert [(r.w, r.accepted, r.committed) for r in answer.stats.rounds][:4] == [(4, 2, 3)] * 4
    assert answer.stats.seed is None
    assert answer.stats.prefill_seconds > 0
    assert answer.stats.decode_seconds > 0
    assert stream.result() == answer


def test_pieces_make_up_the_answer(speaker):
    stream = speaker.stream("x\n", SamplingParams(max_tokens=40), system="static:6")
    pieces = list(stream)
    answer = stream.result()
    assert "".join(p.text for p in pieces) == answer.text
    assert sum((p.token_ids for p in pieces), ()) == answer.token_ids
    assert len(pieces) == 1 + len(answer.stats.rounds)


def test_a_result_midway(engine):
    expected = script(engine, prompt_ids(), (3,), max_tokens=30)
    stream = engine.stream(prompt_ids(), SamplingParams(max_tokens=30), system="dflash")
    assert stream.result().token_ids == ()
    for rounds in range(3):
        next(stream)
        so_far = stream.result()
        assert so_far.token_ids == expected[: 1 + 4 * rounds]
        assert so_far.finish_reason == "abort"
        assert not stream.finished
    assert len(list(stream)) > 0
    assert stream.result().token_ids == expected


def test_closing_twice_and_after_the_end(speaker):
    params = SamplingParams(max_tokens=5, stop=("defg",))
    stream = speaker.stream("x\n", params, system="ar")
    texts = [piece.text for piece in stream]
    assert "".join(texts) == "abcde"
    assert stream.close() == stream.close() == Piece("", ())
    assert stream.result().finish_reason == "length"
    stream = speaker.stream("x\n", SamplingParams(max_tokens=20, stop=("defg",)), system="ar")
    texts = [next(stream).text for _ in range(5)]  # "de" may begin the stop string
    assert "".join(texts) == "abc"
    assert stream.close() == Piece("de", ())
    assert stream.close() == Piece("", ())
    assert stream.result().text == "abcde"
    assert stream.result().finish_reason == "abort"


def test_one_answer_at_a_time(engine):
    first = engine.stream(prompt_ids(), SamplingParams(max_tokens=5))
    for begun in (False, True):
        if begun:
            next(first)
        with pytest.raises(RequestError, match="in the middle of another answer"):
            engine.stream(prompt_ids(12))
    list(first)
    second = engine.stream(prompt_ids(), SamplingParams(max_tokens=5))
    list(second)
    assert second.result().token_ids == first.result().token_ids
    assert list(first) == []  # an ended stream does not disturb the next


def test_a_refused_request_does_not_disturb_the_one_under_way(engine):
    expected = engine.generate(prompt_ids(), SamplingParams(max_tokens=20)).token_ids
    stream = engine.stream(prompt_ids(), SamplingParams(max_tokens=20))
    next(stream)
    for prompt, system in (([], "ar"), ([1], "none"), ([1], "ar"), (prompt_ids(500), "ar")):
        with pytest.raises(RequestError):
            engine.stream(prompt, system=system)
    list(stream)
    assert stream.result().token_ids == expected


# Seeds


def test_a_seed_makes_an_answer_again(engine):
    params = dataclasses.replace(HOT, seed=2**64 - 1)
    first, second = (engine.generate(prompt_ids(), params) for _ in range(2))
    assert first.token_ids == second.token_ids
    assert first.stats.seed == 2**64 - 1
    other = engine.generate(prompt_ids(), dataclasses.replace(HOT, seed=0))
    assert other.token_ids != first.token_ids


def test_without_a_seed_one_is_drawn_and_told(engine):
    answers = [engine.generate(prompt_ids(), HOT) for _ in range(3)]
    seeds = {a.stats.seed for a in answers}
    assert len(seeds) == 3  # equal ones are rarer than 1 in 2^60
    assert all(0 <= seed <= MASK << 32 | MASK for seed in seeds)
    assert len({a.token_ids for a in answers}) > 1
    for answer in answers:
        again = engine.generate(prompt_ids(), dataclasses.replace(HOT, seed=answer.stats.seed))
        assert again.token_ids == answer.token_ids


def test_a_longer_answer_begins_with_the_shorter(engine):
    """A draw belongs to its position: neither limits nor rounds move it."""
    short, long = (
        engine.generate(prompt_ids(), dataclasses.replace(HOT, seed=3, max_tokens=n)).token_ids
        for n in (7, 25)
    )
    assert long[:7] == short


# Loading


def test_systems_and_defaults(pair, speaker):
    assert speaker.default_system == DEFAULT_SYSTEM == "static:4"
    params = SamplingParams(max_tokens=3)
    assert speaker.generate("x\n", params).system == "static:4"
    alone = Engine.load(pair.target, device="cpu", progress=False)
    assert alone.drafter is None
    assert alone.default_system == alone.generate("x\n", params).system == "ar"
    with pytest.raises(RequestError, match="needs a drafter"):
        alone.generate("x\n", params, system="dflash")
    assert set(speaker.defaults.eos_token_ids) == {256, 258}


def test_with_a_profile_the_default_learns():
    engine = Engine.load(device="cpu", progress=False)
    assert engine.default_system == CALIBRATED_SYSTEM == "auto"


def test_of_names_that_clients_make_up_the_last_are_kept():
    engine = Engine.load(device="cpu", progress=False)
    learner = engine._system("auto")
    for i in range(2 * MOST_SYSTEMS):
        engine._system(f"specdecpp:0.5{i:03}")
        assert engine._system("auto") is learner
    assert len(engine._systems) == MOST_SYSTEMS


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_speaks(pair, dtype):
    engine = Engine.load(pair.target, pair.draft, device="cpu", dtype=dtype, progress=False)
    assert engine.target.dtype == DTYPES[dtype] == engine._state.keys.dtype
    for system in ("ar", "dflash", "static:3"):
        assert engine.generate("x\n", SamplingParams(max_tokens=30), system=system).text == (
            "abcdefghijklmnopqrstuvwxyzé a"
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "int8"}, "dtype 'int8' is unknown; expected auto or float32"),
        ({"device": "tpu"}, "device 'tpu' is unknown"),
        ({"device": "cuda:99"}, "cuda:99"),
        ({"max_context": 1}, "max_context is 1"),
    ],
)
def test_options_that_cannot_be_met(pair, options, message):
    with pytest.raises(RequestError, match=message):
        Engine.load(pair.target, pair.draft, **({"device": "cpu"} | options))


def test_paths_that_hold_nothing(pair, tmp_path):
    for model, draft in ((tmp_path, None), (pair.target, tmp_path), (pair.draft, pair.draft)):
        with pytest.raises(HybridSpecError):
            Engine.load(model, draft, device="cpu")
    with pytest.raises(CheckpointError):
        Engine.load(pair.target, pair.target, device="cpu")


def test_logits_that_are_no_numbers(tmp_path):
    """A sentence, not a token: the engine names the position, and is free again."""
    pair = write_pair(tmp_path, "overflow")
    engine = Engine.load(pair.target, device="cpu", progress=False)
    for _ in range(2):
        with pytest.raises(HybridSpecError, match=r"position 2 .*finite"):
            engine.generate("x\n")


@pytest.mark.parametrize("rounds", [(RIGHT,), (1, 4)])
def test_no_gradients_are_kept(engine, rounds):
    """Outside `no_grad` too, where the caller has gradients on."""
    script(engine, prompt_ids(), rounds, max_tokens=10)
    with torch.enable_grad():
        _, stream = run(engine, prompt_ids(), "dflash", SamplingParams(max_tokens=10))
        assert not stream._sequence.slot.gdn.requires_grad


@pytest.mark.parametrize(("system", "most"), [("dflash", 15), ("static:3", 15), ("ar", 0)])
def test_drafts_are_kept_when_asked_for_verified_or_not(engine, system, most):
    prompt, params = prompt_ids(), SamplingParams(max_tokens=30)
    script(engine, prompt, [3, 0, 15, 1], max_tokens=30)
    plain = engine.generate(prompt, params, system=system)
    script(engine, prompt, [3, 0, 15, 1], max_tokens=30)
    kept = engine.generate(prompt, params, system=system, keep_drafts=True)
    assert kept.token_ids == plain.token_ids
    assert kept.stats.rounds == plain.stats.rounds  # drafts are no part of what is compared
    assert all(r.drafts is None for r in plain.stats.rounds)
    emitted = 1
    for r in kept.stats.rounds:
        drafts = [] if r.drafts is None else r.drafts.tolist()
        assert r.w - 1 <= len(drafts) <= most
        accepted = tuple(drafts[: r.accepted])
        assert accepted == kept.token_ids[emitted : emitted + r.accepted]
        emitted += r.committed
