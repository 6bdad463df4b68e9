"""Runs of a toy: what is emitted, where they end, how slices and the ring's turns join, aborts."""

from __future__ import annotations

import pytest
import torch
from toy_run import RIGHT, Toy, answer, moved

from hybridspec.errors import HybridSpecError
from hybridspec.kernels.accept.naive import DAMAGED, LENGTH, STOP
from hybridspec.kernels.length.rule import Rule
from hybridspec.runtime.device.ring import ABORTED, Record
from hybridspec.runtime.device.run import Run
from hybridspec.runtime.launching import ON_DEVICE

PLAN = (2, 0, RIGHT, 1)  # drafts that are right, round by round
FIXED = Rule(drafts=4, length=5)


def read(run: Run) -> list[Record]:
    """All rounds to the end."""
    records = [run.next()]
    while not records[-1].done:
        records.append(run.next())
    return records


def tokens_of(records: list[Record]) -> list[int]:
    return [token for record in records for token in record.tokens]


def state_after(h: int, inputs: list[int]) -> int:
    for token in inputs:
        h = moved(h, token)
    return h


def law(tokens: list[int], plan, rule: Rule) -> list[tuple[int, int, int]]:
    """(w, A, m) of every round of an answer of exactly these tokens."""
    rounds, at, turn = [], 0, 0
    while at < len(tokens):
        left = len(tokens) - at
        w = min(rule.length, left, 1 + min(rule.drafts, left - 1))
        accepted = min(plan[turn % len(plan)], w - 1) if plan else 0
        rounds.append((w, accepted, min(accepted + 1, left)))
        at, turn = at + rounds[-1][2], turn + 1
    return rounds


@pytest.mark.parametrize("launcher", ON_DEVICE)
@pytest.mark.parametrize("room", range(1, 13))
def test_every_room_around_the_block(launcher, room):
    toy = Toy(FIXED, plan=PLAN)
    run, sequence = Run(toy.round, launcher), toy.sequence()
    run.begin(sequence, (), room)
    records = read(run)
    expected = answer(7, 11, room)
    assert tokens_of(records) == expected
    assert [(r.w, r.accepted, len(r.tokens)) for r in records] == law(expected, PLAN, FIXED)
    assert [r.done for r in records] == [0] * (len(records) - 1) + [LENGTH]
    assert all(r.w0 == 5 for r in records)
    assert toy.target.h == state_after(7, [11, *expected[:-1]])
    assert float(toy.ring_state.flatten()[0]) == 5 + room
    blocks = [1 + min(4, room - 1 - sum(len(r.tokens) for r in records[:i]))
              for i in range(len(records))]  # fmt: skip
    assert toy.drafter.blocks == blocks


@pytest.mark.parametrize("launcher", ON_DEVICE)
def test_plain_decoding(launcher):
    toy = Toy(Rule(drafts=0, length=1), split=False)
    run = Run(toy.round, launcher)
    run.begin(toy.sequence(), (), 9)
    records = read(run)
    assert tokens_of(records) == answer(7, 11, 9)
    assert [(r.w, r.accepted) for r in records] == [(1, 0)] * 9
    assert toy.target.verified == [1] * 9


@pytest.mark.parametrize("place", range(9))
def test_a_stop_id_is_kept_and_is_the_last(place):
    expected = answer(7, 11, 40)
    stop = expected[place]
    first = expected.index(stop)
    toy = Toy(FIXED, plan=PLAN)
    run = Run(toy.round, "loop")
    run.begin(toy.sequence(), (60, stop), 40)
    records = read(run)
    assert tokens_of(records) == expected[: first + 1]
    assert records[-1].done == STOP
    assert toy.target.h == state_after(7, [11, *expected[:first]])
    assert int(toy.memory.numbers.room) == 40 - first - 1


@pytest.mark.parametrize("rounds", [2, 4, 6])
def test_the_ring_goes_round_and_is_never_overrun(rounds):
    """Far more rounds than rows: the device is at most so far ahead of what was read."""
    toy = Toy(FIXED, plan=PLAN, rounds=rounds)
    run = Run(toy.round, "loop")
    run.begin(toy.sequence(), (), 60)
    records = []
    while not records or not records[-1].done:
        records.append(run.next())
        assert int(toy.memory.numbers.rounds) - len(records) < rounds
    assert len(records) > 3 * rounds
    assert tokens_of(records) == answer(7, 11, 60)


def test_a_launch_ends_where_the_ring_does():
    """Nobody reads: two launches of half a ring, no more."""
    toy = Toy(FIXED, plan=PLAN, rounds=6)
    run = Run(toy.round, "loop")
    run.begin(toy.sequence(), (), 60)
    run.next()
    assert int(toy.memory.numbers.rounds) == 6
    assert int(toy.memory.numbers.done) == 0
    assert int(toy.memory.numbers.going) == 0


@pytest.mark.parametrize("at", [1, 2, 5])
def test_a_request_to_end_is_heard_in_the_round_under_way(at):
    toy = Toy(FIXED, plan=(RIGHT,), rounds=16)
    run = Run(toy.round, "loop")
    propose = toy.drafter.propose

    def asks(*, scored):
        if toy.drafter.calls == at:
            toy.ring.ask_to_end()
        propose(scored=scored)

    toy.drafter.propose = asks
    run.begin(toy.sequence(), (), 60)
    records = read(run)
    assert len(records) == at + 1
    assert records[-1].done == ABORTED
    assert tokens_of(records) == answer(7, 11, 5 * (at + 1))
    assert toy.target.h == state_after(7, [11, *tokens_of(records)[:-1]])


def test_an_answer_after_a_halt_is_as_any():
    toy = Toy(FIXED, plan=(2,), rounds=4)
    run = Run(toy.round, "loop")
    run.begin(toy.sequence(), (), 60)
    run.next()
    run.halt()
    assert not toy.ring.words.any()
    assert not toy.ring.abort.any()
    with pytest.raises(AssertionError):
        run.next()
    run.begin(toy.sequence(length=9, h=50, anchor=3), (), 12)
    assert tokens_of(read(run)) == answer(50, 3, 12)


@pytest.mark.parametrize("kept", [1, 2, 3])
@pytest.mark.parametrize("at", range(5))
def test_a_rewind_leaves_the_state_of_what_was_kept(at, kept):
    """Slices of two rounds: the first, the middle and the last round of one, and beyond."""
    toy = Toy(FIXED, plan=(2,), rounds=4)
    run, sequence = Run(toy.round, "loop"), toy.sequence(stop=("x",))
    run.begin(sequence, (), 60)
    records = [run.next() for _ in range(at + 1)]
    said = tokens_of(records)[: 3 * at + kept]
    assert len(toy.target.verified) > at + 1  # the device is further
    run.rewind(kept)
    assert toy.target.h == state_after(7, [11, *said[:-1]])
    assert float(toy.ring_state.flatten()[0]) == 5 + len(said)
    run.begin(toy.sequence(h=20), (), 4)
    assert tokens_of(read(run)) == answer(20, 11, 4)


@pytest.mark.parametrize("split", [True, False])
def test_a_row_without_a_finite_logit_ends_it_and_is_not_kept(split):
    toy = Toy(FIXED, plan=(RIGHT,), split=split)
    toy.target.broken = 2
    run = Run(toy.round, "loop")
    run.begin(toy.sequence(), (), 60)
    records = read(run)
    assert [r.done for r in records] == [0, 0, DAMAGED]
    assert records[-1].tokens == ()
    assert toy.target.h == state_after(7, [11, *answer(7, 11, 9)])
    assert len(toy.target.verified) == 3


@pytest.mark.parametrize("number", ["looked", "verified"])
@pytest.mark.parametrize("length", [17, 19, -1, 2**31 - 1])
def test_a_length_that_has_no_stage_is_told(number, length):
    """The selector is made to write it: no stage runs with it, and nothing is kept."""
    toy = Toy(FIXED, plan=(RIGHT,))
    draft = toy.round.draft

    def wrong():
        draft()
        getattr(toy.memory.numbers, number).fill_(length)

    toy.round.draft = wrong
    run = Run(toy.round, "switch")
    run.begin(toy.sequence(), (), 60)
    (record,) = read(run)
    assert (record.done, record.tokens) == (DAMAGED, ())
    assert int(toy.memory.numbers.damaged) == 1
    assert toy.target.h == 7
    assert max(toy.target.verified, default=0) <= 16


def test_a_launch_without_its_rounds_is_told(monkeypatch):
    toy = Toy(FIXED, plan=(2,))
    run = Run(toy.round, "eager")
    run.begin(toy.sequence(), (), 9)
    monkeypatch.setattr(run, "_launch", lambda: None)
    with pytest.raises(HybridSpecError, match="without round 1"):
        run.next()


def test_a_seeded_draw_takes_the_number_of_its_position():
    """With all logits alike a token is its uniform number, times the vocabulary."""
    from hybridspec.runtime.philox import uniform

    toy = Toy(FIXED, plan=(RIGHT,))
    monotone = toy.target.unsplit

    def flat():
        monotone()
        toy.target.buffers.logits.zero_()

    toy.target.unsplit = flat
    run, sequence = Run(toy.round, "loop"), toy.sequence(temperature=1.0)
    sequence.seed = 2**63 + 5
    run.begin(sequence, (), 6)
    first = run.next()
    expected = (uniform(sequence.seed, torch.arange(6, 12)) * 61).long().tolist()
    while not first.done:
        first = Record(0, 0, 0, (more := run.next()).done, first.tokens + more.tokens)
    assert list(first.tokens) == expected
