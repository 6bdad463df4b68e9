"""The end of a round against the sampler's and the stop rule's law, for every w and every A."""

from __future__ import annotations

import random

import pytest
import torch

from hybridspec.core import SamplingParams
from hybridspec.kernels.accept import accept as ours
from hybridspec.kernels.accept import naive
from hybridspec.text.stop import OutputStream

PAIRS = [(w, a) for w in range(1, 17) for a in range(w)]
REASONS = {naive.GOES_ON: None, naive.STOP: "stop", naive.LENGTH: "length"}


def case(w: int, a: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and target's tokens [16] of which a drafts hold at length w. Beyond w the drafts go on
    being right, and the target's tokens are whatever lies there."""
    rng = random.Random(1000 * seed + 16 * w + a)
    y = [rng.randrange(1000) for _ in range(16)]
    inputs = [rng.randrange(1000), *y[:15]]
    if a + 1 < w:
        inputs[a + 1] += 1
    for i in range(w, 16):
        y[i] = rng.choice([-1, y[i]])
    return torch.tensor(inputs), torch.tensor(y)


def run(inputs, y, w, room, stops, device, state=None) -> ours.Round:
    state = state or ours.Round.empty(device)
    state.room.fill_(room)
    length = torch.tensor(w, dtype=torch.int32, device=device)
    table = ours.stop_table(list(stops), 5, device)
    ours.accept(inputs.to(device), y.to(device), length, table, state)
    return state


def assert_law(state: ours.Round, law: naive.Verdict, room: int) -> None:
    m = len(law.emitted)
    assert int(state.accepted) == law.accepted
    assert int(state.kept) == m
    assert int(state.done) == law.done
    assert int(state.room) == room - m
    assert state.emitted.tolist() == [*law.emitted, *[-1] * (16 - m)]
    assert int(state.anchor) == (law.emitted[-1] if m else 0)


@pytest.mark.parametrize("rooms", [[1000], [1, 2, 7]])
def test_every_w_and_every_a(rooms, device):
    for i, (w, a) in enumerate(PAIRS):
        room = rooms[i % len(rooms)]
        inputs, y = case(w, a)
        law = naive.accept(inputs, y, w, room, ())
        assert law.accepted == a
        assert_law(run(inputs, y, w, room, (), device), law, room)


def test_every_place_of_a_stop_id(device):
    for w, a in ((1, 0), (6, 3), (16, 15), (16, 4)):
        inputs, y = case(w, a)
        for place in range(16):
            for stops in ([int(y[place])], [7, *y[[place, place - 1]].tolist()]):
                law = naive.accept(inputs, y, w, 9, {s for s in stops if s >= 0})
                assert_law(run(inputs, y, w, 9, stops, device), law, 9)


def test_the_law_is_the_stop_rule_s():
    for seed in range(200):
        rng = random.Random(seed)
        w = rng.randrange(1, 17)
        a, room = rng.randrange(w), rng.randrange(1, 20)
        inputs, y = case(w, a, seed)
        stops = tuple(rng.choice(y[:w].tolist()) for _ in range(rng.randrange(3)))
        law = naive.accept(inputs, y, w, room, stops)
        params = SamplingParams(stop_token_ids=stops)
        emission = OutputStream(None, params, (), room).push(y[: a + 1].tolist())
        assert len(law.emitted) == emission.kept
        assert REASONS[law.done] == emission.finish_reason


def test_a_stop_beats_the_length_at_one_token(device):
    inputs, y = case(4, 3)
    state = run(inputs, y, 4, 2, [int(y[1])], device)
    assert (int(state.kept), int(state.done)) == (2, naive.STOP)


def test_a_row_without_a_number_ends_the_answer(device):
    for w, place in ((1, 0), (5, 2), (5, 4), (16, 15)):
        inputs, y = case(w, w - 1)
        y[place] = -1
        law = naive.accept(inputs, y, w, 9, ())
        assert law.done == naive.DAMAGED
        assert_law(run(inputs, y, w, 9, (), device), law, 9)


@pytest.mark.parametrize("done", [naive.STOP, naive.LENGTH, naive.DAMAGED])
def test_a_round_after_the_end_keeps_nothing(done, device):
    state = ours.Round.empty(device)
    state.done.fill_(done)
    state.anchor.fill_(77)
    inputs, y = case(8, 5)
    run(inputs, y, 8, 3, (), device, state)
    assert (int(state.kept), int(state.accepted), int(state.done)) == (0, 0, done)
    assert (int(state.room), int(state.anchor)) == (3, 77)
    assert set(state.emitted.tolist()) == {-1}


def test_an_answer_over_several_rounds(device):
    state, room = ours.Round.empty(device), 12
    for w, a in ((4, 1), (16, 6), (3, 2)):
        inputs, y = case(w, a)
        law = naive.accept(inputs, y, w, room, ())
        run(inputs, y, w, room, (), device, state)
        assert_law(state, law, room)
        room -= len(law.emitted)
    assert (room, int(state.done)) == (0, naive.LENGTH)


def test_too_many_stop_ids_are_refused():
    assert ours.stop_table([3, 4], 4, "cpu").tolist() == [3, 4, -1, -1]
    with pytest.raises(ValueError, match="3 stop ids do not fit a table of 2"):
        ours.stop_table([1, 2, 3], 2, "cpu")
