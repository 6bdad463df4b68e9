"""The cycle, and who shares whose factor."""

from __future__ import annotations

import torch

from bench.scripted_models import OUTSIDE, TINY, draws, tiny_cycle
from hybridspec.bench.scripted.cycle import BACK


def test_it_visits_every_token_inside_once_and_none_outside():
    cycle, seen, token = tiny_cycle(), [], 7
    successors = cycle.successors()
    for _ in range(len(cycle)):
        seen.append(token)
        token = int(successors[token])
    assert token == 7
    assert sorted(seen) == [t for t in range(TINY.vocab_size) if t not in OUTSIDE]
    assert all(int(successors[t]) == t for t in OUTSIDE)


def test_places_and_runs_go_round_the_end():
    cycle = tiny_cycle()
    assert torch.equal(cycle.place[cycle.order], torch.arange(len(cycle)))
    last = cycle.run(len(cycle) - 1, 3)
    assert last.tolist() == [*cycle.order[-1:].tolist(), *cycle.order[:2].tolist()]
    assert torch.equal(cycle.known(int(last[0]), 2), last[1:])


def test_factors_are_those_of_the_definition_walked_token_by_token():
    cycle, copied = tiny_cycle(), 0.6
    g = draws(5)
    back = torch.randint(1, BACK + 1, (len(cycle),), generator=g).tolist()
    copies = (torch.rand(len(cycle), generator=g) < copied).tolist()
    owner: list[int] = []
    for p in range(len(cycle)):
        owner.append(owner[p - back[p]] if copies[p] and back[p] <= p else p)
    centres = cycle.centres(copied, draws(5))
    assert centres[cycle.order].tolist() == cycle.order[owner].tolist()
    assert len(set(owner)) < len(owner)
    assert all(int(centres[t]) == t for t in OUTSIDE)


def test_the_seed_decides():
    assert torch.equal(tiny_cycle(1).order, tiny_cycle(1).order)
    assert not torch.equal(tiny_cycle(1).order, tiny_cycle(2).order)
