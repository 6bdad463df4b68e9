"""A pass with one component twice: the same bits, and the launches that it should have."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from builders import fill, target_config
from hybridspec.bench.scripted.clocks.twice import TWICE, TwicePass, other_of
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import Recurrence, blocks
from hybridspec.kernels.forward.products import Products
from hybridspec.kernels.forward.steps import Steps
from hybridspec.model.target import Target
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetState

GDN_LAYERS, ATTENTION_LAYERS = 2, 2
SMALL = target_config(layer_types=("linear_attention", "full_attention") * 2)
LAYERS = GDN_LAYERS + ATTENTION_LAYERS
W = 3
# Calls of a plain pass, and by what a component twice adds to them.
PLAIN = Counter(
    verify=GDN_LAYERS, gated=GDN_LAYERS, attend=ATTENTION_LAYERS, attended=ATTENTION_LAYERS,
    route=LAYERS, experts=LAYERS, joint=LAYERS, head=1,
)  # fmt: skip
MORE = {
    "gdn": Counter(verify=GDN_LAYERS),
    "gdn projections": Counter(joint=GDN_LAYERS, gated=GDN_LAYERS),
    "attention": Counter(attend=ATTENTION_LAYERS),
    "attention projections": Counter(joint=ATTENTION_LAYERS, attended=ATTENTION_LAYERS),
    "moe": Counter(route=LAYERS, experts=LAYERS),
    "head": Counter(head=1),
}


@pytest.fixture(scope="module")
def run(device) -> TwicePass:
    model = Target(SMALL, device, torch.float32)
    fill(model, 3)
    model.set_context(64)
    state = TargetState(SMALL, 64, device=device, dtype=torch.float32, joint=True)
    slot = state.slot(0, (0, 3))
    model.prefill(torch.arange(5, device=device), slot)
    parts = blocks(SMALL, device.type, torch.float32)
    buffers = Buffers.empty(SMALL, 2, parts, slot.keys.shape[2], device, torch.float32)
    buffers.tokens[:W] = torch.tensor([5, 60, 11])
    buffers.lengths.all.copy_(torch.tensor([5, W, W, 2], dtype=torch.int32))
    return TwicePass(LaunchedTarget(model, early=False), slot, buffers)


@pytest.fixture
def calls(monkeypatch) -> Counter:
    """Calls of steps by name, `normed` ones by what they multiply with."""
    seen: Counter = Counter()

    def counted(owner, name, label=lambda name, arguments: name):
        inner = getattr(owner, name)

        def call(self, *arguments):
            seen[label(name, arguments)] += 1
            return inner(self, *arguments)

        monkeypatch.setattr(owner, name, call)

    for name in ("gated", "attend", "attended", "route", "experts"):
        counted(Steps, name)
    counted(Recurrence, "verify")
    counted(Products, "normed", lambda _, arguments: arguments[0])
    return seen


def outcome(run: TwicePass) -> list[torch.Tensor]:
    run.unsplit()
    b = run.buffers
    return [t.clone() for t in (b.logits[:W], b.features[:W], b.routed.ids[:W])]


@pytest.fixture(scope="module")
def expected(run) -> list[torch.Tensor]:
    return outcome(run)


def test_a_plain_pass(run, expected, calls):
    outcome(run)
    calls.pop("router", None)
    assert calls == PLAIN


QUICK = ("gdn", "moe")  # the others in the full suite: each takes the interpreter long
PARTS = [pytest.param(p, marks=[] if p in QUICK else pytest.mark.full) for p in TWICE]


@pytest.mark.parametrize("part", PARTS)
def test_nothing_changes_but_the_launches(run, expected, calls, part):
    run.again.twice = part
    found = outcome(run)
    run.again.twice = ""
    calls.pop("router", None)
    assert calls == PLAIN + MORE[part]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


def test_commits_leave_the_sequence_alone(run):
    state, spare = run.slot.checkpoint, run.spare.slot.checkpoint
    before, there = state.clone(), spare.clone()
    run.commits = False
    run.commit()
    assert torch.equal(spare, there)
    run.commits = True
    run.commit()
    assert torch.equal(state, before)
    assert not torch.equal(spare, there)


def test_distinct_experts_are_counted(run):
    run.again.counts = counts = []
    run.unsplit()
    run.again.counts = None
    chosen = run.buffers.routed.ids[:W].unique()
    assert len(counts) == LAYERS
    assert int(counts[-1]) == len(chosen)


def test_another_layer_is_another_where_there_is_one():
    assert [other_of(i, 1) for i in range(1)] == [0]
    for count in (2, 3, 10, 30):
        there = [other_of(i, count) for i in range(count)]
        assert sorted(there) == [*range(count)]
        assert all(a != b for a, b in enumerate(there))
