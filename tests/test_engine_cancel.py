"""An answer that ends early, in any way and at any place, leaves an engine as good as new."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.core import SamplingParams
from hybridspec.engine import Engine
from hybridspec.errors import RequestError
from scripted import RIGHT, prompt_ids, run, script, scripted_engine

PARAMS = SamplingParams(max_tokens=30)
STEPS = [  # what to interrupt, and on its which call
    ("target", "prefill", 0),
    ("drafter", "extend", 0),
    ("drafter", "propose", 0),
    ("target", "stage0", 1),
    ("target", "stage1", 1),
    ("drafter", "extend", 2),
]


@pytest.fixture(scope="module")
def engine():
    return scripted_engine()


@pytest.fixture
def expected(engine):
    return script(engine, prompt_ids(), (4, 0, RIGHT, 2), max_tokens=30)


def assert_as_new(engine, expected):
    engine.drafter.calls = 0
    for system in ("dflash", "static:5", "ar"):
        assert run(engine, prompt_ids(), system, PARAMS)[0].token_ids == expected


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_closing_after_prefill_and_after_rounds(engine, expected, rounds):
    stream = engine.stream(prompt_ids(12, seed=9), PARAMS, system="dflash")
    pieces = [next(stream) for _ in range(rounds + 1)]
    stream.close()
    answer = stream.result()
    assert answer.finish_reason == "abort"
    assert answer.token_ids == sum((p.token_ids for p in pieces), ())
    assert list(stream) == []
    assert_as_new(engine, expected)


@pytest.mark.parametrize("rounds", [0, 2])
def test_ending_soon_from_another_thread_does_not_wait(engine, expected, monkeypatch, rounds):
    """The thread that iterates ends the answer, with the part or the round that it is in."""
    name = "stage1" if rounds else "prefill"
    original, calls = getattr(engine.target, name), []

    def ends(*args, **kwargs):
        calls.append(1)
        if len(calls) == max(rounds, 1):
            other = threading.Thread(target=stream.end_soon)
            other.start()
            other.join(30)
            assert not other.is_alive()
        return original(*args, **kwargs)

    monkeypatch.setattr(engine.target, name, ends)
    stream = engine.stream(prompt_ids(12, seed=9), PARAMS, system="static:2")
    pieces = list(stream)
    assert len(calls) == max(rounds, 1)
    assert len(pieces) == rounds + 1
    assert stream.result().finish_reason == "abort"
    monkeypatch.undo()
    assert_as_new(engine, expected)


def test_ending_soon_between_two_rounds_runs_no_other(engine, expected):
    stream = engine.stream(prompt_ids(12, seed=9), PARAMS, system="static:2")
    first = next(stream)
    stream.end_soon()
    assert not stream.finished
    assert [piece.token_ids for piece in stream] == [()]
    assert stream.result().token_ids == first.token_ids
    assert stream.finished
    assert_as_new(engine, expected)


@pytest.mark.parametrize("step", [0, 1])  # prefill, a round
def test_closing_from_another_thread_waits_for_the_step(engine, expected, monkeypatch, step):
    """The engine's memory is in use until then: it must not be given to the next request."""
    stage1, prefill = engine.target.stage1, engine.target.prefill
    inside, go_on = threading.Event(), threading.Event()

    def held(original):
        def wait(*args, **kwargs):
            inside.set()
            go_on.wait(30)
            return original(*args, **kwargs)

        return wait

    stream = engine.stream(prompt_ids(12, seed=9), PARAMS, system="dflash")
    for _ in range(step):
        next(stream)
    monkeypatch.setattr(engine.target, "prefill", held(prefill))
    monkeypatch.setattr(engine.target, "stage1", held(stage1))
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    assert inside.wait(30)
    closer = threading.Thread(target=stream.close)
    closer.start()
    closer.join(0.2)
    assert closer.is_alive()
    assert not stream.finished
    with pytest.raises(RequestError, match="one at a time"):
        engine.stream(prompt_ids(), PARAMS)
    go_on.set()
    closer.join(30)
    reader.join(30)
    assert stream.result().finish_reason == "abort"
    monkeypatch.undo()
    assert_as_new(engine, expected)


def test_closing_inside_a_round_ends_with_it(engine, expected, monkeypatch):
    """As a signal handler may, in the thread that iterates."""
    stage1 = engine.target.stage1
    stream = engine.stream(prompt_ids(12, seed=9), PARAMS, system="dflash")
    next(stream)

    def closes(*args, **kwargs):
        stream.close()
        assert not stream.finished
        return stage1(*args, **kwargs)

    monkeypatch.setattr(engine.target, "stage1", closes)
    assert next(stream).token_ids
    assert stream.finished
    assert list(stream) == []
    monkeypatch.undo()
    assert_as_new(engine, expected)


def test_closing_before_it_began(engine, expected):
    stream = engine.stream(prompt_ids(), PARAMS)
    stream.close()
    assert stream.result().token_ids == ()
    assert_as_new(engine, expected)


def test_dropping_a_stream(engine, expected):
    stream = engine.stream(prompt_ids(12, seed=9), PARAMS)
    next(stream)
    with pytest.raises(RequestError, match="one at a time"):
        engine.stream(prompt_ids(), PARAMS)
    del stream
    gc.collect()  # CPython needs no help here; other collectors do
    assert_as_new(engine, expected)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(("part", "method", "call"), STEPS)
def test_an_exception_at_every_step(engine, expected, monkeypatch, part, method, call, error):
    original, calls = getattr(getattr(engine, part), method), []

    def fails_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == call + 1:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(getattr(engine, part), method, fails_once)
    stream = engine.stream(prompt_ids(), PARAMS, system="dflash")
    with pytest.raises(error):
        list(stream)
    assert stream.finished
    assert stream.result().finish_reason == "abort"
    assert stream.result().token_ids == expected[: len(stream.result().token_ids)]
    assert_as_new(engine, expected)


def test_memory_is_allocated_once(engine, expected):
    """The same buffers serve every request: no address and no size changes."""

    def places():
        states = [*engine._state.tensors().values(), *vars(engine._drafter_state).values()]
        return [(t.data_ptr(), t.shape) for t in states if hasattr(t, "data_ptr")]

    before, size = places(), engine.nbytes
    assert_as_new(engine, expected)
    stream = engine.stream(prompt_ids(), PARAMS)
    next(stream)
    assert places() == before
    assert engine.nbytes == size
    assert stream._sequence.slot.gdn.data_ptr() == engine._state.gdn.data_ptr()


def test_engines_may_share_models_at_different_contexts():
    config = target_config()
    target, drafter = random_target(config), random_drafter(drafter_config(config))
    long = Engine(target, drafter, max_context=300)
    expected = long.generate([1, 2, 3], SamplingParams(max_tokens=100)).token_ids
    Engine(target, drafter, max_context=20)
    assert long.generate([1, 2, 3], SamplingParams(max_tokens=100)).token_ids == expected


def test_a_stream_is_not_shared_by_threads():
    config = target_config()
    engine = Engine(random_target(config), random_drafter(drafter_config(config)), max_context=99)
    stream = engine.stream([1, 2, 3])
    stream._lock.acquire()  # as if another thread were inside a round
    with pytest.raises(RequestError, match="Another thread"):
        next(stream)
    stream._lock.release()
    assert next(stream).token_ids


def test_threads_get_a_right_answer_or_a_refusal():
    """The check and the reset of the slot are one step: a second request never disturbs a first."""
    config = target_config()
    engine = Engine(random_target(config), random_drafter(drafter_config(config)), max_context=99)
    expected = engine.generate([1, 2, 3], SamplingParams(max_tokens=8)).token_ids
    start, wrong, served = threading.Barrier(4), [], []

    def ask():
        start.wait()
        for _ in range(20):
            try:
                tokens = engine.generate([1, 2, 3], SamplingParams(max_tokens=8)).token_ids
            except RequestError:
                continue
            (served if tokens == expected else wrong).append(tokens)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)
    assert served
    assert not wrong
