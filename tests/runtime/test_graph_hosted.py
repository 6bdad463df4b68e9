"""Descriptions whose conditions the host reads, launched any number of times."""

from __future__ import annotations

from functools import partial

import pytest
import torch

from graph_programs import Rounds
from hybridspec.kernels import support
from hybridspec.runtime.graph import Eager, GraphError, record
from hybridspec.runtime.graph.hosted import Hosted, in_order


@pytest.mark.parametrize("by_host", [False, True])
@pytest.mark.parametrize("name", ["all", "deep"])
def test_launched_it_leaves_what_the_law_leaves(name, by_host, monkeypatch):
    monkeypatch.setattr(support, "_said", {})
    lawful, ours = Rounds("cpu"), Rounds("cpu")
    before = ours.values()
    made = record(getattr(ours, name), "cpu", by_host=by_host)
    assert ours.values() == before, "recording runs nothing"
    assert made.figures is None
    for rounds, state in ((0, 3), (1, 3), (7, 11), (40, 2)):
        for program in (lawful, ours):
            program.set(rounds, state)
        getattr(lawful, name)(Eager())
        made.launch()
        assert ours.values() == lawful.values(), (rounds, state)
    assert support.said() == (), "a CPU hears nothing"


def test_work_between_conditions_is_one_piece():
    pieces = []

    def straight(works):
        pieces.append(len(works))
        return partial(in_order, works)

    going, index, damaged = (torch.tensor(v, dtype=torch.int32) for v in (2, 5, 0))
    seen = []

    def say(what):
        return lambda: seen.append(what)

    def body(r):
        r.run(say("round"))
        r.run(lambda: going.sub_(1))

    def describe(r):
        r.run(say("a"))
        r.run(say("b"))
        r.switch(index, [lambda r: None, lambda r: r.run(say("last"))], damaged)
        r.loop(going, body, arm=lambda handle: seen.append(handle))
        r.run(say("c"))

    made = Hosted.of(describe, straight)
    assert sorted(pieces) == [1, 1, 2, 3]
    assert seen == []
    made()
    assert seen == ["a", "b", "last", "round", 0, "round", 0, "c"]
    assert damaged == 1
    made()  # the loop has ended
    assert seen[8:] == ["a", "b", "last", "c"]


def test_an_arm_runs_before_its_index_is_read():
    index, damaged, seen = torch.tensor(0, dtype=torch.int32), torch.tensor(0).int(), []

    def body(i):
        return lambda r: r.run(lambda: seen.append(i))

    def describe(r):
        r.switch(index, [body(0), body(1)], damaged, arm=lambda handle: index.fill_(1 + handle))

    made = Hosted.of(describe, lambda works: partial(in_order, works))
    made()
    assert seen == [1]


def test_what_is_no_condition_is_refused_when_it_is_described():
    wrong = torch.tensor(0)
    for describe in (
        lambda r: r.loop(wrong, lambda r: None),
        lambda r: r.switch(wrong, [lambda r: None], wrong),
    ):
        with pytest.raises(GraphError, match=r"expected a single torch\.int32"):
            record(describe, "cpu")
