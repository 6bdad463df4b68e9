"""Log-probabilities of tokens: what they are of, and that rows of blocks give plain decoding's."""

from __future__ import annotations

import pytest
import torch

import hybridspec.core
from hybridspec.core import SamplingParams
from hybridspec.errors import OptionError, RequestError
from hybridspec.runtime import logprobs
from hybridspec.runtime.state import TargetState
from scripted import RIGHT, prompt_ids, run, script, scripted_engine

# float32 rows of other lengths of passes differ by some 1e-6 (sums in another order), and a wrong
# row by more than 0.1.
NEAR = 1e-4
TOKENS = 24


@pytest.fixture(scope="module")
def engine():
    return scripted_engine()


def plain(engine, ids: list[int]) -> torch.Tensor:
    """[V]: log-probabilities after a fresh prefill of `ids`."""
    slot = TargetState(engine.target.config, 100, dtype=engine.target.dtype).slot()
    return engine.target.prefill(torch.tensor(ids), slot).logits[0].log_softmax(-1)


def assert_entry(entry, token: int, expected: torch.Tensor, top: int) -> None:
    assert entry.token_id == token
    assert entry.logprob == pytest.approx(float(expected[token]), abs=NEAR)
    best = expected.topk(top).values.tolist()
    assert [value for _, value in entry.top] == pytest.approx(best, abs=NEAR)
    assert all(float(expected[i]) == pytest.approx(value, abs=NEAR) for i, value in entry.top)
    assert len({i for i, _ in entry.top}) == top


STEERED = {"temperature": 1.0, "seed": 2, "top_k": 20, "presence_penalty": 2.0}


@pytest.mark.parametrize("top", [0, 5, 20])
@pytest.mark.parametrize("system", ["ar", "static:6", "dflash"])
@pytest.mark.parametrize("sampling", [{}, STEERED], ids=["greedy", "penalised"])
def test_they_are_the_models_own_at_every_token(engine, sampling, system, top):
    """At temperature 1 and without filters and penalties, whatever the request samples with."""
    prompt = prompt_ids()
    script(engine, prompt, (2, RIGHT, 0), max_tokens=TOKENS, **sampling)
    answer, _ = run(engine, prompt, system, SamplingParams(TOKENS, **sampling, logprobs=top))
    assert len(answer.logprobs) == len(answer.token_ids) == TOKENS
    for i, (entry, token) in enumerate(zip(answer.logprobs, answer.token_ids, strict=True)):
        assert_entry(entry, token, plain(engine, [*prompt, *answer.token_ids[:i]]), top)


def test_pieces_have_those_of_their_tokens_up_to_a_stop(engine):
    prompt = prompt_ids()
    expected = script(engine, prompt, (RIGHT,), max_tokens=TOKENS)
    stop = SamplingParams(TOKENS, stop_token_ids=(expected[11],), logprobs=2)
    stream = engine.stream(prompt, stop, system="static:8")
    pieces = list(stream)
    for piece in pieces:
        assert [entry.token_id for entry in piece.logprobs] == list(piece.token_ids)
    assert stream.result().logprobs == tuple(e for p in pieces for e in p.logprobs)
    assert stream.close().logprobs == ()


def test_nobody_asked_and_nothing_is_told(engine):
    pieces = list(engine.stream(prompt_ids(), SamplingParams(4), system="dflash"))
    assert all(piece.logprobs == () for piece in pieces)


def test_an_entry_depends_on_no_other_row():
    """To the bit, also where threads share a row: they do so for one row and not for several."""
    logits = 3 * torch.randn(8, 50_000, generator=torch.Generator().manual_seed(0))
    tokens, threads = list(range(8)), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        together = logprobs.token_logprobs(logits, tokens, 5)
        alone = [logprobs.token_logprobs(logits[i : i + 1], [i], 5) for i in tokens]
    finally:
        torch.set_num_threads(threads)
    assert together == tuple(entry for (entry,) in alone)


@pytest.mark.parametrize("length", [1, 2, 9, 50])
def test_a_prompt_is_scored_token_by_token(engine, length, monkeypatch):
    """In pieces: neither the passes' nor the head's borders show."""
    monkeypatch.setattr(hybridspec.core, "PREFILL_CHUNK", 16)
    monkeypatch.setattr(logprobs, "ROWS", 5)
    ids = prompt_ids(length)
    scored = engine.score(ids, 3)
    assert len(scored) == length
    assert scored[0] is None
    for i, entry in enumerate(scored[1:], 1):
        assert_entry(entry, ids[i], plain(engine, ids[:i]), 3)


def test_logits_of_a_long_prompt_never_exist_at_once(engine, monkeypatch):
    seen, head = [], engine.target.logits

    def watched(rows):
        seen.append(len(rows))
        return head(rows)

    monkeypatch.setattr(engine.target, "logits", watched)
    engine.score(prompt_ids(150), 0)
    assert max(seen) <= logprobs.ROWS
    assert sum(seen) == 149


def test_a_score_leaves_nothing_to_the_next_answer(engine):
    prompt, params = prompt_ids(), SamplingParams(TOKENS)
    before = engine.generate(prompt, params, system="static:4").token_ids
    engine.score(prompt_ids(60, seed=3), 1)
    assert engine.generate(prompt, params, system="static:4").token_ids == before


def test_what_cannot_be_scored(engine):
    for top in (-1, 21, True, 2.0, None):
        with pytest.raises(OptionError, match=r"^top is .*; expected an integer from 0 to 20"):
            engine.score([1, 2], top)
    engine.score(prompt_ids(engine.max_context), 0)
    with pytest.raises(RequestError, match="has 193 tokens and the context 192"):
        engine.score(prompt_ids(engine.max_context + 1), 0)
    stream = engine.stream(prompt_ids(), SamplingParams(4))
    with pytest.raises(RequestError, match="in the middle of another answer"):
        engine.score([1, 2], 0)
    stream.close()


def test_a_score_that_nobody_wants_any_more_ends_at_the_next_part(engine, monkeypatch):
    monkeypatch.setattr("hybridspec.runtime.logprobs.prefill_chunk", lambda *_: 4)
    read, parts = engine.target.read, []
    monkeypatch.setattr(engine.target, "read", lambda *a: parts.append(1) or read(*a))
    with pytest.raises(RequestError, match="given up"):
        engine.score(prompt_ids(40), 1, wanted=lambda: len(parts) < 3)
    assert len(parts) == 3
    assert len(engine.score(prompt_ids(9), 1)) == 9
