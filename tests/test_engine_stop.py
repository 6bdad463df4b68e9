"""Where an answer ends: every kind of stop at every place of a block, and the state left behind.

After every answer the committed state must equal a fresh run over the prompt and the emitted tokens
without the last one, which is the new anchor: see `committed.EXACT` for the tolerance.
"""

from __future__ import annotations

import dataclasses

import pytest
import torch

import hybridspec.core
from builders import fill, random_target
from committed import assert_committed
from disk_pair import CYCLE, HEADS, VOCABULARY, write_tokenizer
from hybridspec.checkpoint import GenerationConfig
from hybridspec.core import RoundStats, SamplingParams
from hybridspec.engine import Engine
from hybridspec.text.tokenizer import Tokenizer
from scripted import (
    RIGHT,
    TINY,
    TINY_DRAFTER,
    ScriptedDrafter,
    prompt_ids,
    run,
    script,
    scripted_engine,
)

BLOCK = range(1, 17)  # places in the first round's block; token 0 comes from prefill
SPEAKER = dataclasses.replace(TINY, vocab_size=VOCABULARY)
SAYS = CYCLE * 3  # after a prompt that ends in a newline


@pytest.fixture(scope="module")
def engine():
    return scripted_engine(torch.float64)


@pytest.fixture(scope="module")
def prompt(engine):
    """A prompt whose answer begins with 21 different tokens, so that any of them can be a stop."""
    for seed in range(100):
        prompt = prompt_ids(9, seed)
        answer = engine.generate(prompt, SamplingParams(max_tokens=21), system="ar").token_ids
        if len(set(answer)) == 21:
            return prompt
    raise AssertionError("no such prompt")


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """An engine that says CYCLE for ever, one byte a token, and drafts it right."""
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    target = random_target(SPEAKER, dtype=torch.float64)
    HEADS["cycle"](target)
    target.prepare()
    config = dataclasses.replace(TINY_DRAFTER, vocab_size=VOCABULARY, mask_token_id=VOCABULARY - 1)
    drafter = ScriptedDrafter(config, dtype=torch.float64)
    fill(drafter, 1)
    engine = Engine(target, drafter, Tokenizer.from_dir(folder), max_context=192)
    script(engine, engine.encode("x\n"), (RIGHT,), max_tokens=80)
    return engine


def assert_answer(engine, prompt, params, expected, reason, system="dflash"):
    """The tokens, the reason, and the committed state."""
    engine.drafter.calls = 0
    answer, stream = run(engine, prompt, system, params)
    assert answer.token_ids == tuple(expected)
    assert answer.finish_reason == reason
    assert_committed(engine, stream, [*prompt, *expected][:-1])
    return answer


@pytest.mark.parametrize("place", BLOCK)
def test_a_stop_id_at_every_place_of_a_block(engine, prompt, place):
    """As an accepted draft (places up to A) and as the target's own token (place A + 1)."""
    for accepted in (RIGHT, place - 1):
        answer = script(engine, prompt, (accepted,), max_tokens=40)
        params = SamplingParams(max_tokens=40, stop_token_ids=(answer[place],))
        assert_answer(engine, prompt, params, answer[: place + 1], "stop")


def test_a_trimmed_round_tells_what_was_accepted_and_what_was_kept(engine, prompt):
    answer = script(engine, prompt, (RIGHT,), max_tokens=40)
    params = SamplingParams(max_tokens=40, stop_token_ids=(answer[5],))
    stats = assert_answer(engine, prompt, params, answer[:6], "stop").stats
    assert stats.rounds == (RoundStats(w=16, accepted=15, committed=5, w0=16),)
    assert stats.mean_acceptance_length == 16  # before trimming, so that stops do not bias it


def test_the_first_token_may_be_the_stop(engine, prompt):
    answer = script(engine, prompt, (RIGHT,), max_tokens=40)
    params = SamplingParams(stop_token_ids=(answer[0],))
    assert assert_answer(engine, prompt, params, answer[:1], "stop").stats.rounds == ()


@pytest.mark.parametrize(("first", "second"), [(3, 11), (20, 5), (17, 16)])
def test_two_ids_end_an_answer(engine, prompt, first, second, monkeypatch):
    """The checkpoint's stop ids, several of them: the one that comes first counts."""
    answer = script(engine, prompt, (RIGHT,), max_tokens=40)
    ids = (answer[first], answer[second])
    monkeypatch.setattr(engine, "defaults", GenerationConfig(eos_token_ids=ids))
    params = SamplingParams(max_tokens=40)
    for system in ("ar", "static:4", "dflash"):
        expected = answer[: min(first, second) + 1]
        assert_answer(engine, prompt, params, expected, "stop", system)
    past = dataclasses.replace(params, ignore_eos=True)
    assert_answer(engine, prompt, past, answer, "length")


@pytest.mark.parametrize(
    ("stop", "cap", "kept", "reason"),
    [(2, 5, 3, "stop"), (5, 5, 5, "length"), (4, 5, 5, "stop"), (18, 19, 19, "stop")],
)
def test_stop_and_length_in_one_block(engine, prompt, stop, cap, kept, reason):
    """The first in token order wins; on the same token it is the stop."""
    answer = script(engine, prompt, (RIGHT,), max_tokens=40)
    params = SamplingParams(max_tokens=cap, stop_token_ids=(answer[stop],))
    for system in ("ar", "static:3", "dflash"):
        assert_answer(engine, prompt, params, answer[:kept], reason, system)


@pytest.mark.parametrize("tokens", [1, 2, 15, 16, 17, 31, 32, 33])
def test_exactly_as_many_tokens_as_asked(engine, prompt, tokens):
    """With every draft accepted the last block must be cut, and nothing beyond it counted."""
    answer = script(engine, prompt, (RIGHT,), max_tokens=40)
    given = assert_answer(
        engine, prompt, SamplingParams(max_tokens=tokens), answer[:tokens], "length"
    )
    assert given.prompt_tokens == len(prompt)
    rounds = given.stats.rounds
    assert 1 + sum(r.committed for r in rounds) == tokens
    assert 1 + given.stats.accepted + len(rounds) == tokens
    assert len(rounds) == -(-(tokens - 1) // 16)


@pytest.mark.parametrize("room", [1, 2, 16, 17, 23])
def test_the_context_ends_the_answer(prompt, room):
    """The context holds prompt and answer, to the last token."""
    engine = scripted_engine(torch.float64, max_context=len(prompt) + room)
    answer = script(engine, prompt, (RIGHT,), max_tokens=99)
    assert len(answer) == room
    for plan in ((), (RIGHT,), (3, RIGHT)):
        engine.drafter.script([*prompt, *answer], plan)
        assert_answer(engine, prompt, SamplingParams(max_tokens=99), answer, "length")


@pytest.mark.parametrize("system", ["ar", "static:5", "dflash"])
@pytest.mark.parametrize("at", range(27))
def test_a_stop_string_at_every_place(speaker, system, at):
    """Of 1 to 5 characters. The text is cut before it; the token that completes it is the last."""
    prompt = speaker.encode("x\n")
    stop = SAYS[at : at + 1 + at % 5]
    through = SAYS[: SAYS.find(stop) + len(stop)]
    params = SamplingParams(max_tokens=60, stop=(stop, "no such text"))
    answer = assert_answer(speaker, prompt, params, speaker.encode(through), "stop", system)
    assert answer.text == through.removesuffix(stop)


def test_a_stop_string_behind_the_limit(speaker):
    """Half of it before the cap: the answer ends by length and gives the held text back."""
    prompt, params = speaker.encode("x\n"), SamplingParams(max_tokens=7, stop=("gh",))
    for system in ("ar", "dflash"):
        answer = assert_answer(speaker, prompt, params, speaker.encode("abcdefg"), "length", system)
        assert answer.text == "abcdefg"


def test_a_stop_id_has_no_text(speaker, monkeypatch):
    ends = GenerationConfig(eos_token_ids=(speaker.encode("k")[0], speaker.encode("f")[0]))
    monkeypatch.setattr(speaker, "defaults", ends)
    prompt = speaker.encode("x\n")
    answer = assert_answer(
        speaker, prompt, SamplingParams(), speaker.encode("abcdef"), "stop", "dflash"
    )
    assert answer.text == "abcde"


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_state_after_closing(engine, prompt, rounds):
    answer = script(engine, prompt, (5, RIGHT, 0), max_tokens=40)
    stream = engine.stream(prompt, SamplingParams(max_tokens=40), system="dflash")
    for _ in range(rounds + 1):
        next(stream)
    stream.close()
    emitted = stream.result().token_ids
    assert emitted == answer[: len(emitted)]
    assert_committed(engine, stream, [*prompt, *emitted[:-1]])


@pytest.mark.parametrize("length", [15, 16, 17, 31, 32, 33, 47, 48, 49])
def test_prompts_at_the_edges_of_prefill_chunks(engine, monkeypatch, length):
    """Partial acceptance right after a full, a nearly full and a barely begun chunk."""
    monkeypatch.setattr(hybridspec.core, "PREFILL_CHUNK", 16)
    prompt = prompt_ids(length)
    answer = script(engine, prompt, (2, 0, 14, RIGHT, 7), max_tokens=45)
    for system in ("dflash", "static:6"):
        assert_answer(engine, prompt, SamplingParams(max_tokens=45), answer, "length", system)


@pytest.mark.parametrize("length", [511, 512, 513])
def test_prompts_at_the_edge_of_a_real_chunk(length):
    engine = scripted_engine(torch.float64, max_context=576)
    prompt = prompt_ids(length)
    answer = script(engine, prompt, (2, 9, 0), max_tokens=25)
    assert_answer(engine, prompt, SamplingParams(max_tokens=25), answer, "length")


@pytest.mark.parametrize("length", [22, 23, 24, 25, 38, 39, 40, 41, 79, 80, 81])
def test_partial_acceptance_at_the_edges_of_the_drafters_rings(engine, length):
    """A window of 24 and a block of 16 make rings of 40 rows."""
    prompt = prompt_ids(length)
    answer = script(engine, prompt, (0, 3, 14, 1), max_tokens=23)
    for tokens in (2, 6, 21, 23):
        params = SamplingParams(max_tokens=tokens)
        assert_answer(engine, prompt, params, answer[:tokens], "length")
