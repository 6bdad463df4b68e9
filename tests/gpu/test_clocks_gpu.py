"""Clocks of scripted rounds on CUDA: the card's times, and a component twice under early launches.

Run by `make test-gpu`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.scripted_models import RECIPE, traces
from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.clocks.stamped import stamped
from hybridspec.bench.scripted.clocks.stamps import Stamps, by_round
from hybridspec.bench.scripted.clocks.twice import TWICE, TwicePass
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetState
from hybridspec.systems import parse_system

pytestmark = pytest.mark.gpu
CUDA, CONTEXT, TOKENS, LAYERS, W = torch.device("cuda"), 200, 60, 8, 6
SYSTEMS = ("ar", "static:4", "dflash")


@pytest.fixture(scope="module")
def pair() -> Pair:
    """A few layers of the 35B's sizes."""
    whole = SHAPES["35b"]
    shape = Shape(
        replace(whole.target, layer_types=whole.target.layer_types[:LAYERS]),
        replace(whole.drafter, target_layer_ids=(1, 4, 6), num_target_layers=LAYERS),
        whole.outside,
    )
    return Pair.make(shape, RECIPE, traces(), CUDA, torch.bfloat16)


@pytest.mark.parametrize("launcher", ["loop", "switch", "host"])
def test_every_round_has_its_times_in_order(pair, launcher):
    stamps = Stamps(CUDA)
    executor, last = stamped(pair, CONTEXT + TOKENS + 1, launcher, stamps)
    answers = Answers(pair, executor, CONTEXT + TOKENS + 1)
    answers.prompt(0, CONTEXT)
    for name in SYSTEMS:
        system = parse_system(name, 16)
        for _ in range(2):  # the first time it is recorded
            stamps.clear()
            pair.begin(("test", "coding"), answers.length)
            answer = answers.answer(system, TOKENS)
            assert list(answer.tokens) == pair.cycle.known(answers.anchor, TOKENS).tolist()
        rounds = by_round(stamps.pieces(), last)
        assert len(rounds) == len(answer.rounds)
        times = [t for r in rounds for p in r for t in (p.begin, p.end)]
        assert times == sorted(times)
        spent = (times[-1] - times[0]) / 1e9
        assert 0 < spent <= answer.seconds


def test_stamps_in_a_row_are_in_order():
    times = Stamps(CUDA).chain()
    assert times == sorted(times)
    assert 0 < times[-1] - times[0] < 1e6  # 64 kernels in a millisecond


@pytest.mark.parametrize("part", TWICE)
def test_a_component_twice_changes_no_bit(pair, part):
    pair.target.set_context(256)
    target = LaunchedTarget(pair.target)
    config, dtype = target.config, target.dtype
    slot = TargetState(config, 256, device=CUDA, dtype=dtype).slot(0, (1, 4, 6))
    target.prefill(pair.cycle.run(0, CONTEXT), slot)
    parts = blocks(config, CUDA.type, dtype)
    buffers = Buffers.empty(config, 3, parts, slot.keys.shape[2], CUDA, dtype)
    buffers.tokens.copy_(pair.cycle.run(CONTEXT, 16))
    buffers.lengths.all.copy_(torch.tensor([CONTEXT, W, W, 3], dtype=torch.int32))
    run = TwicePass(target, slot, buffers)
    found = []
    for twice in ("", part, part):
        run.again.twice = twice
        run.unsplit()
        found.append((buffers.logits[:W].clone(), buffers.features[:W].clone()))
    for logits, features in found[1:]:
        assert torch.equal(logits, found[0][0])
        assert torch.equal(features, found[0][1])
    assert found[0][0].argmax(1).tolist() == pair.cycle.run(CONTEXT + 1, W).tolist()
