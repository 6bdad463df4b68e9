"""The law of recorders: order, conditions, and what is refused."""

from __future__ import annotations

import pytest
import torch

from graph_programs import Rounds
from hybridspec.runtime.graph import Eager, GraphError


def number(value, dtype=torch.int32):
    return torch.tensor(value, dtype=dtype)


def add(seen, what):
    return lambda r: r.run(lambda: seen.append(what))


def test_work_runs_in_its_order_at_once():
    seen = []
    eager = Eager()
    for i in range(3):
        eager.run(lambda i=i: seen.append(i))
        assert seen == list(range(i + 1))


@pytest.mark.parametrize("index", range(3))
def test_a_switch_runs_the_body_that_its_index_names(index):
    seen, damaged = [], number(0)
    Eager().switch(number(index), [add(seen, i) for i in range(3)], damaged)
    assert seen == [index]
    assert damaged == 0


@pytest.mark.parametrize("index", [-1, 3, 2**31 - 1, -(2**31)])
def test_an_index_without_a_body_runs_the_last_and_is_told(index):
    seen, damaged = [], number(0)
    Eager().switch(number(index), [add(seen, i) for i in range(3)], damaged)
    assert seen == [2]
    assert damaged == 1


def test_damage_stays_until_the_host_takes_it_away():
    damaged = number(1)
    Eager().switch(number(0), [add([], 0)], damaged)
    assert damaged == 1


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_loop_reads_its_flag_before_every_round(rounds):
    program = Rounds("cpu")
    program.set(rounds)
    Eager().loop(program.going, lambda r: r.run(program.count))
    assert program.rounds == rounds
    assert program.left == 0


def test_any_number_but_0_goes_on():
    going, seen = number(-3), []

    def once(r):
        r.run(lambda: (seen.append(int(going)), going.fill_(0)))

    Eager().loop(going, once)
    assert seen == [-3]


def test_arms_run_where_the_kernels_that_they_replace_would():
    going, index, seen = number(1), number(0), []

    def choose(handle):
        assert handle == 0
        index.fill_(1)

    def stop(handle):
        assert handle == 0
        going.fill_(0)

    def body(r):
        r.switch(index, [add(seen, "wrong"), add(seen, "right")], number(0), arm=choose)
        assert going == 1

    Eager().loop(going, body, arm=stop)
    assert seen == ["right"]
    assert going == 0


def test_a_run_is_what_plain_python_says():
    """The same numbers, computed without a recorder."""
    program = Rounds("cpu")
    program.set(6, state=9)
    program.all(Eager())
    state, index = 9 * 31 + 5, 0
    for _ in range(6):
        index = state % 17
        state = state * 31 + index
        if index % 2:
            state = state * 31 + 1000 + index
    wrapped = (state * 31 + 7 + 2**63) % 2**64 - 2**63
    assert program.values()[1:] == (index, 0, 0, 6)
    assert abs(state) < 2**63  # else the remainders above were of other numbers
    assert program.state == wrapped


@pytest.mark.parametrize("wrong", [number(0, torch.int64), torch.zeros(1, dtype=torch.int32)])
def test_what_is_no_condition_is_refused(wrong):
    eager, right = Eager(), number(0)
    for call in (
        lambda: eager.switch(wrong, [add([], 0)], right),
        lambda: eager.switch(right, [add([], 0)], wrong),
        lambda: eager.loop(wrong, add([], 0)),
    ):
        with pytest.raises(GraphError, match=r"expected a single torch.int32 of shape \[\]"):
            call()


def test_a_switch_without_bodies_is_refused():
    with pytest.raises(GraphError, match="no bodies"):
        Eager().switch(number(0), [], number(0))


def test_flags_on_two_devices_are_refused():
    with pytest.raises(GraphError, match="damaged of a switch is on meta; expected cpu"):
        Eager().switch(number(0), [add([], 0)], number(0).to("meta"))
