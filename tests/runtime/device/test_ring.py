"""Words of the ring: whole rounds or none, whatever order they arrive in, turn after turn."""

from __future__ import annotations

import gc
import random
from types import SimpleNamespace

import pytest
import torch

from hybridspec.kernels.linear.config import ROWS
from hybridspec.runtime.device import signals
from hybridspec.runtime.device.memory import Memory
from hybridspec.runtime.device.numbers import NAMES, Numbers
from hybridspec.runtime.device.ring import ABORTED, Record, Ring
from hybridspec.runtime.device.runs import Runs
from hybridspec.runtime.device.signals import arm, emit, lose, mark

CPU = torch.device("cpu")
TOKENS = (5, 0, 248_319)


@pytest.fixture
def ring() -> Ring:
    return Ring(4, CPU)


@pytest.fixture
def memory() -> Memory:
    made = Memory.empty(31, CPU)
    made.emitted[:3] = torch.tensor(TOKENS)
    return made


def written(ring: Ring, memory: Memory, rounds: int, *, drafts: int = 4, whole: int = 0, **also):
    """A round's end, `rounds` rounds after the answer began."""
    figures = {"nominal": 16, "verified": 9, "accepted": 7, "kept": 3, "room": 20, "left": 5}
    memory.numbers.set(position=100, rounds=rounds, **figures | also)
    emit(memory.numbers, memory.emitted, memory.request.position, ring, drafts, whole)


def numbers(memory: Memory) -> dict[str, int]:
    return {name: int(getattr(memory.numbers, name)) for name in NAMES}


def test_places_are_those_of_the_kernels():
    made = Numbers.empty(CPU)
    made.set(**{name: i for i, name in enumerate(NAMES)})
    for name in NAMES:
        assert int(getattr(made, name)) == getattr(signals, name.upper()).value
    assert made.target.kept.data_ptr() == made.kept.data_ptr()
    assert made.drafter.held.data_ptr() == made.held.data_ptr()
    assert made.drafter.position.data_ptr() == made.place.data_ptr()
    assert made.drafter.block.data_ptr() == made.block.data_ptr()


def test_an_unknown_number_is_refused():
    with pytest.raises(AssertionError, match="width"):
        Numbers.empty(CPU).set(width=1)


@pytest.mark.parametrize("rounds", [0, 3, 4, 1000, 2**31 - 2])
def test_a_round_is_read_as_it_was_written(ring, memory, rounds):
    written(ring, memory, rounds)
    assert ring.read(rounds + 1) == Record(16, 9, 7, 0, TOKENS)
    assert ring.read(rounds + 5) is None
    assert ring.read(rounds + 2) is None


def test_a_whole_block_and_an_empty_round(ring, memory):
    memory.emitted.copy_(torch.arange(ROWS))
    written(ring, memory, 0, verified=16, accepted=15, kept=16)
    written(ring, memory, 1, verified=16, accepted=0, kept=0, done=3)
    assert ring.read(1) == Record(16, 16, 15, 0, tuple(range(16)))
    assert ring.read(2) == Record(16, 16, 0, 3, ())


@pytest.mark.parametrize("seed", range(5))
def test_words_in_any_order_are_never_half_a_round(ring, memory, seed):
    """One after the other into a row that an earlier turn has left."""
    written(ring, memory, 2)
    old = ring.words.clone()
    memory.emitted[:3] = torch.tensor((8, 8, 8))
    written(ring, memory, 6, verified=5)
    new = ring.words.clone()
    ring.words.copy_(old)
    places = [int(i) for i in (old[3] != new[3]).nonzero()]
    assert len(places) == 4
    random.Random(seed).shuffle(places)
    for place in places:
        assert ring.read(7) is None
        ring.words[3, place] = new[3, place]
    assert ring.read(7) == Record(16, 5, 7, 0, (8, 8, 8))
    assert ring.read(3) is None


def test_the_next_round_s_lengths(ring, memory):
    written(ring, memory, 6)
    after = numbers(memory)
    assert (after["position"], after["place"]) == (103, 103)
    assert (after["held"], after["added"]) == (100, 3)
    assert int(memory.request.position) == 104
    assert (after["rounds"], after["left"], after["going"], after["done"]) == (7, 4, 1, 0)


@pytest.mark.parametrize(("room", "whole", "rows"), [
    (20, 0, 5), (5, 0, 5), (4, 0, 4), (1, 0, 1), (0, 0, 1), (20, 16, 16), (0, 16, 16),
])  # fmt: skip
def test_the_next_block(ring, memory, room, whole, rows):
    written(ring, memory, 0, whole=whole, room=room)
    assert numbers(memory)["block"] == rows


@pytest.mark.parametrize(("asked", "done", "left", "said", "going"), [
    (0, 0, 5, 0, 1), (0, 0, 1, 0, 0), (0, 1, 5, 1, 0), (1, 0, 5, ABORTED, 0), (1, 2, 5, 2, 0),
])  # fmt: skip
def test_what_ends_a_launch(ring, memory, asked, done, left, said, going):
    if asked:
        ring.ask_to_end()
    written(ring, memory, 0, done=done, left=left)
    assert (numbers(memory)["done"], numbers(memory)["going"]) == (said, going)
    record = ring.read(1)
    assert record is not None
    assert record.done == said


@pytest.mark.parametrize(("done", "going"), [(0, 1), (2, 0)])
def test_a_launch_is_armed(memory, done, going):
    memory.numbers.set(done=done, left=3)
    arm(memory.numbers, 32)
    assert (numbers(memory)["left"], numbers(memory)["going"]) == (32, going)


def test_damage_in_a_form_that_acceptance_knows(memory):
    memory.tokens.copy_(torch.arange(ROWS))
    memory.bad[2] = memory.bad[9] = 1
    mark(memory.numbers, memory.bad, memory.tokens)
    expected = [-1 if i in (2, 9) else i for i in range(ROWS)]
    assert memory.tokens.tolist() == expected
    memory.numbers.set(looked=19, verified=19)
    lose(memory.numbers)
    mark(memory.numbers, memory.bad, memory.tokens)
    assert memory.tokens.tolist() == [-1] * ROWS
    assert (int(memory.numbers.looked), int(memory.numbers.verified)) == (1, 1)


def test_a_clear_ring_has_no_round(ring, memory):
    written(ring, memory, 0)
    ring.ask_to_end()
    ring.clear()
    assert ring.read(1) is None
    assert not ring.abort.any()


def test_runs_that_are_dropped_ask_the_device_to_end():
    target = SimpleNamespace(config=SimpleNamespace(vocab_size=8), device=CPU)
    runs = Runs(target, None, "eager")
    ring = runs.ring
    assert not ring.abort[0]
    del runs
    gc.collect()
    assert ring.abort[0]
