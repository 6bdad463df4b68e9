"""An answer that ends early keeps whole passes and nothing else; the next one is right."""

from __future__ import annotations

import pytest
import torch

from hybridspec.core import SamplingParams
from reused import CHUNK, answer, assert_alike, store, text_ids, tiny

PARAMS = SamplingParams(max_tokens=20)
STEPS = [  # what to interrupt, on its which call, and the cuts kept by then
    ("target", "prefill", 0, []),
    ("target", "prefill", 2, [20, 40]),
    ("drafter", "extend", 1, [20]),
    ("target", "prefill", 3, [20, 40, 60]),
    ("drafter", "propose", 0, [20, 40, 60]),
    ("target", "stage0", 1, [20, 40, 60]),
    ("target", "stage1", 0, [20, 40, 60]),
    ("target", "commit", 1, [20, 40, 60]),
]


@pytest.fixture(scope="module")
def shared():
    return tiny()


@pytest.fixture
def engine(shared):
    store(shared).clear()
    return shared


def kept(engine) -> list[int]:
    return sorted(node.stop for node in store(engine).nodes() if node.point is not None)


def assert_right(engine, prompt):
    for system in ("dflash", "static:5", "ar"):
        warm = answer(engine, prompt, PARAMS, system, "exact")
        assert warm[0].stats.cached_tokens > 0
        assert_alike(warm, answer(engine, prompt, PARAMS, system, "none"))


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize(("part", "method", "call", "cuts"), STEPS)
def test_an_exception_at_every_step(engine, monkeypatch, part, method, call, cuts, error):
    prompt, calls = text_ids(70), []
    original = getattr(getattr(engine, part), method)

    def fails_once(*args, **kwargs):
        calls.append(args)
        if len(calls) == call + 1:
            raise error
        return original(*args, **kwargs)

    monkeypatch.setattr(getattr(engine, part), method, fails_once)
    with pytest.raises(error):
        list(engine.stream(prompt, PARAMS, system="dflash", reuse="near"))
    monkeypatch.undo()
    assert kept(engine) == cuts
    answer(engine, prompt, PARAMS, "dflash")
    assert_right(engine, prompt)


@pytest.mark.parametrize("where", ["Rows", "Point"])
def test_an_interrupt_while_a_state_is_copied(engine, monkeypatch, where):
    from hybridspec.runtime.prefix import reuse

    prompt, copied = text_ids(70), []
    original = getattr(reuse, where).of

    def interrupted(*args, **kwargs):
        copied.append(args)
        if len(copied) == 2:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    monkeypatch.setattr(getattr(reuse, where), "of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(engine.stream(prompt, PARAMS, system="dflash"))
    monkeypatch.undo()
    assert kept(engine) == [CHUNK]
    assert_right(engine, prompt)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupt_while_a_state_is_put_back(engine, monkeypatch, error):
    from hybridspec.runtime.prefix import reuse

    prompt = text_ids(70)
    answer(engine, prompt, PARAMS)
    original = reuse.restore

    def fails(*args, **kwargs):
        original(*args, **kwargs)
        raise error

    monkeypatch.setattr(reuse, "restore", fails)
    with pytest.raises(error):
        list(engine.stream(prompt, PARAMS))
    monkeypatch.undo()
    other = text_ids(33, seed=3)
    assert_alike(answer(engine, other, PARAMS), answer(engine, other, PARAMS, reuse="none"))
    assert_right(engine, prompt)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_closing_keeps_no_end(engine, rounds):
    prompt = text_ids(70)
    stream = engine.stream(prompt, PARAMS, system="static:3", reuse="near")
    for _ in range(rounds + 1):
        next(stream)
    stream.close()
    assert kept(engine) == [20, 40, 60]
    assert_right(engine, prompt)


def test_closing_in_a_prompt_keeps_the_pass_under_way(engine, monkeypatch):
    """The pass ends, and what it leaves is whole; but nobody asks for the next one, nor keeps."""
    prompt = text_ids(70)
    stream = engine.stream(prompt, PARAMS)
    original = engine.target.prefill

    def closes(*args, **kwargs):
        stream.close()
        return original(*args, **kwargs)

    monkeypatch.setattr(engine.target, "prefill", closes)
    list(stream)
    monkeypatch.undo()
    assert stream.result().finish_reason == "abort"
    assert kept(engine) == [20]
    assert_right(engine, prompt)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
    ids=["gpu", "cpu", "python"],
)
def test_a_device_without_memory_drops_what_is_kept(engine, monkeypatch, caplog, error):
    from hybridspec.kernels import support
    from hybridspec.runtime.prefix import reuse

    prompt = text_ids(70)
    law = answer(engine, prompt, PARAMS, reuse="none")

    def full(*args, **kwargs):
        raise error

    answer(engine, text_ids(50, seed=6), PARAMS)
    monkeypatch.setattr(support, "_said", {})  # what was said once is not said again
    monkeypatch.setattr(reuse.Point, "of", full)
    assert_alike(answer(engine, prompt, PARAMS), law)
    assert kept(engine) == []
    assert "no memory left for kept prefixes" in caplog.text
    monkeypatch.undo()
    assert_alike(answer(engine, prompt, PARAMS), law)
    assert_right(engine, prompt)


def test_an_error_of_another_kind_is_not_taken_for_full_memory(engine, monkeypatch):
    from hybridspec.runtime.prefix import reuse

    def broken(*args, **kwargs):
        raise RuntimeError("a shape is wrong")

    monkeypatch.setattr(reuse.Point, "of", broken)
    with pytest.raises(RuntimeError, match="a shape is wrong"):
        answer(engine, text_ids(70), PARAMS)
