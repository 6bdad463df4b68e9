"""Runs on the device, the embedded pair's: eager, loop and switch say and leave the same, which is
plain decoding's; no recapture, no allocation and no number read inside one; ends of every kind.

Run by `make test-gpu`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import cycle, islice, pairwise

import pytest
import torch
import triton
import triton.language as tl
from device_runs import (
    CONTEXT,
    CUDA,
    EXACT,
    GREEDY,
    KNOWN,
    OTHERS,
    PROMPTS,
    SEEDED,
    Cut,
    assert_alike,
    engine,
    everything,
    fresh,
    on_device,
    said,
    target_state,
)

from hybridspec import Engine, SamplingParams, assets
from hybridspec.errors import HybridSpecError
from hybridspec.policy.profile import load_profile
from hybridspec.runtime.device import run as runs_of_rounds
from hybridspec.runtime.device.ring import ABORTED
from hybridspec.runtime.device.round import Round
from hybridspec.runtime.launching import ON_DEVICE

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module", autouse=True)
def forget():
    yield
    KNOWN.clear()


@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("system", EXACT + OTHERS)
def test_launchers_say_and_leave_the_same(system, params):
    """bf16 has near ties everywhere: equal tokens mean equal bits."""
    for prompt in PROMPTS:
        plain = said(engine("loop"), prompt, params, "ar")
        state = target_state(plain)
        first = None
        for launcher in ON_DEVICE:
            stream = on_device(said(engine(launcher), prompt, params, system))
            answer, left = stream.result(), everything(stream)
            assert len(answer.token_ids) == params.max_tokens
            if first is None:
                first = answer, left
            assert answer.token_ids == first[0].token_ids, launcher
            assert answer.stats.rounds == first[0].stats.rounds, launcher
            assert_alike(left, first[1], f"{launcher}, {prompt}")
            if not system.endswith(":block"):
                assert answer.token_ids == plain.result().token_ids, prompt
            if system in EXACT:
                assert_alike(left, state, f"{launcher} against ar, {prompt}")


@pytest.mark.parametrize("system", ["ar", "static:5", "length16", "replayssm"])
def test_the_host_s_rounds_in_float32_are_the_same(system):
    """The same kernels led by the host: tokens, figures and all bits, greedy."""
    for prompt in PROMPTS[:2]:
        ours = on_device(said(engine("loop", "float32"), prompt, GREEDY, system))
        mine = everything(ours)
        theirs = said(engine("host", "float32"), prompt, GREEDY, system)
        with torch.inference_mode():
            theirs._rounds.catch_up(theirs._sequence)
        assert ours.result().token_ids == theirs.result().token_ids
        assert ours.result().stats.rounds == theirs.result().stats.rounds
        assert_alike(mine, everything(theirs), prompt)


@pytest.mark.parametrize("launcher", ["loop", "switch"])
def test_prompts_and_budgets_of_every_length_around_the_block(launcher):
    e = engine(launcher)
    ids = e.encode(PROMPTS[0], chat=True)
    for n in range(1, 20):
        params = SamplingParams(max_tokens=n, ignore_eos=True)
        prompt = ids[: 20 - n]
        plain = said(e, prompt, params, "ar", chat=False)
        expected, state = plain.result().token_ids, target_state(plain)
        assert len(expected) == n
        for system in ("static:4", "length16", "hybridspec"):
            stream = said(e, prompt, params, system, chat=False)
            assert stream.result().token_ids == expected, (system, n)
            assert_alike(target_state(stream), state, f"{system}, {n} tokens")


def test_stop_ids_end_it_on_the_device():
    """Every token of an answer in turn, also in the midst of a block."""
    e = engine("loop")
    plain = said(e, PROMPTS[1], GREEDY, "ar").result().token_ids
    for place in range(1, 24, 3):
        stop = plain[place]
        end = plain.index(stop) + 1
        params = SamplingParams(max_tokens=64, ignore_eos=True, stop_token_ids=(stop,))
        stream = said(e, PROMPTS[1], params, "length16")
        assert stream.result().token_ids == plain[:end]
        assert stream.result().finish_reason == "stop"
        reference = said(e, PROMPTS[1], params, "ar")
        if end > 1:
            assert_alike(target_state(stream), target_state(reference), f"stop after {end}")


@pytest.mark.parametrize("launcher", ["loop", "switch"])
@pytest.mark.parametrize("system", ["static:5", "hybridspec", "replayssm"])
def test_a_stop_string_is_mended_to_the_bit(launcher, system):
    """The device is further by then; what stays is the state of exactly the kept tokens."""
    e, host = engine(launcher), engine("eager")
    text = said(e, PROMPTS[2], GREEDY, "ar").result().text
    for start in (10, len(text) // 2, len(text) - 12):
        params = replace(GREEDY, stop=(text[start : start + 6],))
        ours = said(e, PROMPTS[2], params, system)
        answer, left = ours.result(), everything(ours)
        plain = said(host, PROMPTS[2], params, "ar")
        assert answer.finish_reason == "stop"
        assert answer.text == plain.result().text
        assert answer.token_ids == plain.result().token_ids
        if system != "replayssm":
            assert_alike(left, target_state(plain), f"{start}")
        again = everything(said(host, PROMPTS[2], params, system))
        assert_alike(left, again, f"{launcher} against eager, {start}")


def test_a_long_answer_goes_round_the_ring_up_to_the_context_s_end(monkeypatch):
    """Several hundred rounds in many launches, one recording; nothing grows with the context."""
    e = engine("loop")
    for system in ("ar", "static:2"):
        said(e, PROMPTS[0], GREEDY, system)
    monkeypatch.setattr(runs_of_rounds, "record", None)  # whoever records again fails
    params = SamplingParams(max_tokens=CONTEXT, ignore_eos=True)
    plain = said(e, PROMPTS[0], params, "ar").result()
    drafted = said(e, PROMPTS[0], params, "static:2").result()
    assert len(plain.token_ids) == CONTEXT - plain.prompt_tokens
    assert len(plain.stats.rounds) > 10 * e._launching.runs.ring.rounds
    assert drafted.token_ids == plain.token_ids
    assert plain.finish_reason == drafted.finish_reason == "length"


@pytest.mark.parametrize("launcher", ["loop", "switch"])
@pytest.mark.parametrize("system", ["ar", "static:5", "hybridspec"])
def test_a_run_allocates_nothing_reads_no_number_and_records_nothing(launcher, system, monkeypatch):
    """By hooks: the allocator's counter, torch's own error at a synchronising call, no recorder."""
    e = engine(launcher)
    said(e, PROMPTS[0], GREEDY, system)
    stream = e.stream(PROMPTS[0], GREEDY, system=system, chat=True)
    next(stream)
    next(stream)  # the first round: the request's numbers are written before it
    monkeypatch.setattr(runs_of_rounds, "record", None)
    before = torch.cuda.memory_stats(CUDA)["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        pieces = list(stream)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats(CUDA)["allocation.all.allocated"] == before
    assert pieces


def test_the_ring_and_the_flag_are_pinned():
    ring = engine("loop")._launching.runs.ring
    assert ring.words.is_pinned()
    assert ring.abort.is_pinned()


@pytest.mark.parametrize("launcher", ["loop", "switch"])
def test_a_request_to_end_acts_within_two_rounds(launcher):
    e = engine(launcher)
    params = SamplingParams(max_tokens=900, ignore_eos=True)
    said(e, PROMPTS[0], GREEDY, "ar")
    stream = e.stream(PROMPTS[0], params, system="ar", chat=True)
    next(stream)
    next(stream)  # the first of 64 rounds that are queued
    runs = e._launching.runs
    runs.ring.ask_to_end()
    seen = max(n for n in range(1, 64) if runs.ring.read(n) is not None)
    torch.cuda.synchronize()
    numbers = runs.memory.numbers
    assert int(numbers.done) == ABORTED
    assert int(numbers.rounds) <= seen + 2
    stream.close()
    assert not runs.ring.words.any()
    assert not runs.ring.abort.any()


@pytest.mark.parametrize("launcher", ["loop", "switch"])
def test_an_answer_cut_short_leaves_the_engine_as_new(launcher):
    e = engine(launcher)
    expected = said(e, PROMPTS[3], GREEDY, "length16").result()
    for end in ("close", "drop", "break"):
        stream = e.stream(PROMPTS[1], GREEDY, system="hybridspec", chat=True)
        pieces = [next(stream) for _ in range(4)]
        if end == "close":
            stream.close()
            assert stream.result().token_ids == sum((p.token_ids for p in pieces), ())
            assert not e._launching.runs.ring.words.any()
        if end == "break":
            stream._output.push = lambda tokens: 1 / 0
            with pytest.raises(ZeroDivisionError):
                next(stream)
        del stream
        again = said(e, PROMPTS[3], GREEDY, "length16").result()
        assert again.token_ids == expected.token_ids, end
        assert again.stats.rounds == expected.stats.rounds, end


def test_tokens_come_round_by_round():
    """A piece a round, and the first ones long before the device has done the last."""
    e = engine("loop")
    params = SamplingParams(max_tokens=900, ignore_eos=True)
    said(e, PROMPTS[0], GREEDY, "ar")
    stream = e.stream(PROMPTS[0], params, system="ar", chat=True)
    next(stream)
    next(stream)
    end = e._launching.runs.of(stream._rounds.system, stream._sequence)._end
    assert not end.query()  # two launches of 32 rounds were queued
    stream.close()


@triton.jit
def _force(numbers, table, SIZE: tl.constexpr):
    """u and w by a table, no further than the selector went."""
    w = tl.minimum(tl.load(table + tl.load(numbers + 12) % SIZE), tl.load(numbers + 2))
    tl.store(numbers + 1, w)
    tl.store(numbers + 2, w)


@triton.jit
def _poison(x, w, stride, N, BLOCK: tl.constexpr):
    """Rows from w on become NaN."""
    row = tl.program_id(0)
    if row >= tl.load(w):
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            nan = tl.full((BLOCK,), float("nan"), tl.float32).to(x.dtype.element_ty)
            tl.store(x + row * stride + at, nan, mask=at < N)


@triton.jit
def _break(numbers):
    """w becomes 19 in an answer's third round."""
    third = (tl.load(numbers + 12) == 2) & (tl.load(numbers + 11) == 0)
    tl.store(numbers + 2, 19, mask=third)


def every_pair() -> list[int]:
    """Lengths such that each of 1..16 comes right after each other one and after itself: an Euler
    tour of the complete graph."""
    left = {a: list(range(1, 17)) for a in range(1, 17)}
    path, tour = [1], []
    while path:
        if left[path[-1]]:
            path.append(left[path[-1]].pop())
        else:
            tour.append(path.pop())
    pairs = set(pairwise(tour))
    assert len(pairs) == 256
    return tour


class Forced(Round):
    """Lengths by a table, whatever the selector chose."""

    table = torch.zeros(0)

    def draft(self) -> None:
        super().draft()
        _force[(1,)](self.memory.numbers.all, self.table, len(self.table))


@pytest.mark.parametrize("launcher", ["loop", "switch"])
def test_every_length_after_every_other(launcher):
    """A22 of the cases: replays of one length right after any other leave plain decoding's bits."""
    e = fresh(launcher)
    Forced.table = torch.tensor(every_pair(), dtype=torch.int32, device=CUDA)
    e._launching.runs.form = Forced
    # so hot that few drafts hold: more rounds than there are pairs
    params = replace(SEEDED, max_tokens=CONTEXT, temperature=1.5, top_p=1.0)
    plain = said(engine("loop"), PROMPTS[0], params, "ar")
    expected, state = plain.result().token_ids, target_state(plain)
    forced = said(e, PROMPTS[0], params, "length16")
    assert forced.result().token_ids == expected
    assert_alike(target_state(forced), state, launcher)
    w = [r.w for r in forced.result().stats.rounds[:-16]]  # the last ones have less room
    assert len(w) > len(Forced.table)
    assert w == list(islice(cycle(Forced.table.tolist()), len(w)))


class Poisoned(Round):
    """What Stage 0 retained beyond w is overwritten before Stage 1."""

    def correct(self) -> None:
        super().correct()
        b, w = self.target.buffers, self.memory.numbers.verified
        for x in (b.x, b.normed.scaled, b.routed.logits):
            _poison[(16,)](x, w, x.stride(0), x.shape[1], 256)


@pytest.mark.parametrize("launcher", ["loop", "switch"])
def test_retained_values_beyond_w_do_not_matter(launcher):
    e = fresh(launcher)
    e.profile = load_profile(assets.PROFILE)
    e._launching.runs.form = Poisoned
    for prompt in PROMPTS:
        ours = said(e, prompt, GREEDY, "hybridspec")
        mine = everything(ours)
        theirs = said(engine(launcher), prompt, GREEDY, "hybridspec")
        assert ours.result().token_ids == theirs.result().token_ids
        assert ours.result().stats.rounds == theirs.result().stats.rounds
        assert_alike(mine, everything(theirs), prompt)


@pytest.mark.parametrize("system", ["static:5", "length16", "nominal-only"])
def test_split_and_unsplit_are_the_same(system):
    """The paper's E.4; rules without a correction run unsplit by default, here they are cut."""
    e = fresh("switch")
    e.profile = load_profile(assets.PROFILE)
    e._launching.runs.form = Cut
    for prompt in PROMPTS:
        ours = said(e, prompt, GREEDY, system)
        mine = everything(ours)
        theirs = said(engine("switch"), prompt, GREEDY, system)
        assert ours._rounds._runs.of(ours._rounds.system, ours._sequence).round.plan.split
        assert ours.result().token_ids == theirs.result().token_ids
        assert ours.result().stats.rounds == theirs.result().stats.rounds
        assert_alike(mine, everything(theirs), prompt)


class Wrong(Round):
    """In its third round the length is out of range."""

    def draft(self) -> None:
        super().draft()
        _break[(1,)](self.memory.numbers.all)


def test_a_length_out_of_range_is_told_and_nothing_is_lost():
    """A25 of the cases."""
    e = fresh("switch")
    runs = e._launching.runs
    runs.form = Wrong
    with pytest.raises(HybridSpecError, match="for which there is no recording"):
        said(e, PROMPTS[0], GREEDY, "static:5")
    runs.form = Round
    runs._known.clear()
    expected = said(engine("loop"), PROMPTS[0], GREEDY, "ar").result()
    assert said(e, PROMPTS[0], GREEDY, "static:5").result().token_ids == expected.token_ids


def test_scripted_drafts_stand_between_the_drafter_and_the_selector():
    """Drafts that are plain decoding's own words are all accepted."""
    e = fresh("loop")
    plain = said(engine("loop"), PROMPTS[0], GREEDY, "ar").result()
    known = torch.full((CONTEXT + 16,), 0, device=CUDA)
    begun = plain.prompt_tokens
    known[begun : begun + 64] = torch.tensor(plain.token_ids, device=CUDA)

    def say(anchor, position, answer):
        _say[(1,)](position, known, answer.tokens)

    e._launching.runs.form = partial(Round, replace=say)
    answer = said(e, PROMPTS[0], GREEDY, "static:8").result()
    assert answer.token_ids == plain.token_ids
    assert [r.accepted for r in answer.stats.rounds[:-1]] == [7] * (len(answer.stats.rounds) - 1)


@triton.jit
def _say(position, known, tokens):
    row = tl.arange(0, 16)
    token = tl.load(known + tl.load(position) + row)
    tl.store(tokens + row, token, mask=row > 0)


def test_a_gpu_s_default_is_the_loop():
    e = Engine.load(assets.TARGET, assets.DRAFTER, device="cuda", max_context=CONTEXT)
    assert e._launching.runs.launcher == "loop"
    on_device(said(e, PROMPTS[0], GREEDY, "static:4"))
    plain = Engine.load(device="cuda", max_context=CONTEXT, kernels=False)
    assert plain._launching.runs is None
