"""Engines that keep states at cuts a few tokens apart, and what their answers leave."""

from __future__ import annotations

import torch
from torch import Tensor

from committed import drafter_context
from hybridspec.core import Generation, SamplingParams
from hybridspec.engine import Engine
from hybridspec.runtime.check import committed
from hybridspec.runtime.prefix.cuts import Cuts
from hybridspec.runtime.prefix.store import Store
from hybridspec.stream import Stream
from scripted import prompt_ids, scripted_engine

MARK = 500  # opens a message
CHUNK = 20
ROOMY = 1 << 26


def keeping(engine: Engine, cuts: Cuts | None = None) -> Engine:
    """The engine, cutting prompts every CHUNK tokens and before messages."""
    engine._prefixes.cuts = cuts or Cuts(CHUNK, {MARK})
    return engine


def tiny(memory: int = ROOMY, **options) -> Engine:
    """A tiny random pair that keeps states."""
    return keeping(scripted_engine(prefix_memory=memory, max_context=400, **options))


def text_ids(length: int, seed: int = 0) -> list[int]:
    """Random token ids without a message's opening."""
    return [i % MARK for i in prompt_ids(length, seed)]


def store(engine: Engine) -> Store:
    """What the engine keeps."""
    assert engine._prefixes.store is not None
    return engine._prefixes.store


def answer(
    engine: Engine, prompt, params: SamplingParams, system: str = "dflash", reuse: str = "exact"
) -> tuple[Generation, dict[str, Tensor]]:
    """The answer, and copies of all it has committed, the drafter's context included."""
    stream = engine.stream(prompt, params, system=system, reuse=reuse)
    for _ in stream:
        pass
    return stream.result(), left(engine, stream)


def left(engine: Engine, stream: Stream) -> dict[str, Tensor]:
    """Copies of what an answer's slots hold."""
    sequence = stream._sequence
    with torch.inference_mode():
        stream._rounds.catch_up(sequence)
    parts = committed(sequence.slot)
    if stream._rounds.drafter is not None:
        parts |= drafter_context(sequence.drafter_slot, engine.drafter.config)
        assert sequence.drafter_slot.length == sequence.slot.length
    return {name: part.clone() for name, part in parts.items()}


def assert_alike(warm: tuple[Generation, dict], cold: tuple[Generation, dict]) -> None:
    """The same tokens, rounds and every bit of the state."""
    (ours, mine), (theirs, law) = warm, cold
    assert ours.token_ids == theirs.token_ids
    assert ours.logprobs == theirs.logprobs
    assert ours.stats.rounds == theirs.stats.rounds
    assert mine.keys() == law.keys()
    for name, part in law.items():
        assert torch.equal(mine[name], part), name
