"""A turn by itself, without a line and a thread."""

from __future__ import annotations

import asyncio

import pytest

from hybridspec.core import SamplingParams
from hybridspec.serving.metrics import Metrics
from hybridspec.serving.turns import Answer, Ask, Call
from served import metric


async def ran(engine, metrics, cancel_after=None) -> Answer:
    """An answer of 40 tokens, given up before its piece of that number."""
    params = SamplingParams(max_tokens=40, ignore_eos=True)
    answer = Answer("me", Ask(engine.encode("The garden"), params, {"system": "static:4"}))
    if cancel_after == 0:
        answer.cancel()
    elif cancel_after is not None:
        left = iter(range(cancel_after - 1, -1, -1))
        count = metrics.progress
        metrics.progress = lambda *facts: (count(*facts), next(left, 1) or answer.cancel())
    outcome = answer.run(engine, metrics)
    answer.succeed(outcome)
    answer.pieces = [progress async for progress in answer]
    return answer


@pytest.mark.parametrize("cancel_after", [None, 1, 3])
def test_every_round_is_counted_once_however_it_ends(engine, cancel_after):
    metrics = Metrics("x", "m")
    answer = asyncio.run(ran(engine, metrics, cancel_after))
    rounds = answer.generation.stats.rounds
    assert metric(metrics.text().decode(), "spec_decode_num_drafts_total") == len(rounds)
    assert metric(metrics.text().decode(), "round_seconds_count") == len(rounds)
    assert [p.round for p in answer.pieces if p.round is not None] == list(rounds)
    ids = tuple(i for p in answer.pieces for i in p.piece.token_ids)
    assert ids == answer.generation.token_ids
    assert "".join(p.piece.text for p in answer.pieces) == answer.generation.text
    wanted = "length" if cancel_after is None else "abort"
    assert answer.generation.finish_reason == wanted
    if cancel_after is not None:
        assert len(rounds) == cancel_after - 1


def test_one_that_is_given_up_before_it_begins_runs_nothing(engine, monkeypatch):
    monkeypatch.setattr(engine.target, "prefill", None)  # calling it fails
    answer = asyncio.run(ran(engine, Metrics("x", "m"), 0))
    assert answer.generation.finish_reason == "abort"
    assert answer.generation.token_ids == ()


def test_a_call_gives_its_result_or_its_error(engine):
    async def both():
        good, bad = Call("me", lambda e, wanted: (e is engine, wanted())), Call("me", None)
        good.succeed(good.run(engine, None))
        bad.fail(ValueError("no"))
        bad.fail(ValueError("again"))
        with pytest.raises(ValueError, match="no"):
            await bad.result
        return await good.result

    assert asyncio.run(both()) == (True, True)


def test_nobody_is_told_after_the_loop_has_ended(engine):
    async def made():
        return Call("me", lambda e, wanted: 1)

    asyncio.run(made()).succeed(1)
