"""Scripted drafts: the law against its definition, and the kernel against the law."""

from __future__ import annotations

import pytest
import torch

from bench.scripted_models import OUTSIDE, made_up, tiny_cycle
from hybridspec.bench.scripted import drafts as kernel
from hybridspec.bench.scripted import script as law
from hybridspec.bench.scripted.cycle import Cycle
from hybridspec.bench.scripted.script import NEAR, SPREAD, Drafts, Script

TRACE = made_up(300)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def script(device: str = DEVICE) -> Script:
    cycle = tiny_cycle()
    cycle = Cycle(cycle.order.to(device), cycle.place.to(device))
    columns = (TRACE.accepted, TRACE.confidence, TRACE.entropy)
    return Script.of(cycle, *map(torch.from_numpy, columns))


def said(draft, tables: Script, anchor: int, position: int) -> Drafts:
    device = tables.order.device
    out = Drafts.empty(device)
    draft(tables, torch.tensor([anchor], device=device),
          torch.tensor(position, dtype=torch.int32, device=device), out)  # fmt: skip
    return out


@pytest.mark.parametrize("position", [0, 1, 23, 24, 57, 299, 300, 1234])
def test_successors_then_a_wrong_token_and_its_successors(position):
    tables, cycle = script("cpu"), tiny_cycle()
    anchor = int(cycle.order[position % 7])
    found = said(law.draft, tables, anchor, position)
    right = int(TRACE.accepted[position % 300])
    known = cycle.run(position % 7, 100).tolist()
    assert found.tokens[: right + 1].tolist() == known[: right + 1]
    if right < 15:
        ahead = known.index(int(found.tokens[right + 1])) - (right + 1)
        assert NEAR <= ahead < NEAR + SPREAD
        first = right + 1 + ahead
        assert found.tokens[right + 1 :].tolist() == known[first : first + 15 - right]
    assert found.confidence[1:].tolist() == TRACE.confidence[position % 300].tolist()
    assert found.entropy[1:].tolist() == TRACE.entropy[position % 300].tolist()


def test_the_kernel_says_what_the_law_says():
    tables, g = script(), torch.Generator().manual_seed(0)
    inside = [t for t in range(128) if t not in OUTSIDE]
    for turn in range(12):
        start, rows = (0, 300) if turn % 3 else (100, 37)
        tables.begin(range(start, start + rows), 40 * turn, 5)
        anchor = inside[int(torch.randint(len(inside), (), generator=g))]
        position = int(torch.randint(2000, (), generator=g))
        for ours, theirs in zip(
            said(kernel.draft, tables, anchor, position),
            said(law.draft, tables, anchor, position),
            strict=True,
        ):
            assert torch.equal(ours, theirs)


def test_the_kernel_may_read_its_anchor_from_where_it_writes():
    tables = script()
    position = torch.tensor(11, dtype=torch.int32, device=DEVICE)
    out = Drafts.empty(DEVICE)
    out.tokens[:1] = 7
    kernel.draft(tables, out.tokens[:1], position, out)
    assert torch.equal(out.tokens, said(law.draft, tables, 7, 11).tokens)


def test_a_position_is_at_the_place_that_was_asked_for():
    tables = script("cpu")
    tables.begin(range(100, 150), 1000, 49)
    for position, row in ((1000, 149), (1001, 100), (1050, 149)):
        found = said(law.draft, tables, 7, position)
        assert found.confidence[1:].tolist() == TRACE.confidence[row].tolist()


def test_a_cycle_on_which_a_wrong_draft_could_be_right_is_refused():
    with pytest.raises(ValueError, match="larger vocabulary"):
        Script.of(Cycle(torch.arange(40), torch.arange(40)), *(torch.zeros(1, 15),) * 3)
