"""Features are the residuals after the tapped layers, 0-based, in the order named."""

from __future__ import annotations

import pytest
import torch

from builders import random_target
from hybridspec.model.target import Stage0
from hybridspec.runtime.state import DrafterState, TargetState
from scripted import TINY, TINY_DRAFTER, prompt_ids


class ConstantLayer:
    """A layer whose output is its index, whatever comes in."""

    def __init__(self, index):
        self.index = index

    def __call__(self, x, step):
        return torch.full_like(x, self.index)

    def mix(self, x, step):
        return x

    def route(self, x):
        return Stage0(x, x, torch.zeros(len(x), 2, dtype=torch.long), torch.ones(len(x), 2))

    def experts(self, routed):
        return torch.full_like(routed.residual, self.index)


@pytest.fixture
def constant():
    target = random_target(TINY)
    target.layers = [ConstantLayer(i) for i in range(4)]
    return target


@pytest.mark.parametrize("taps", [(0, 1, 3), (2,), (0,), (3, 0), (2, 0, 1, 3)])
def test_features_are_those_of_the_named_layers(constant, taps):
    slot = TargetState(TINY, 40).slot(0, taps)
    ids = torch.arange(5)
    passes = {
        "prefill": constant.prefill(ids, slot),
        "split": constant.stage1(constant.stage0(ids, slot, "block"), 4, slot, "block"),
        "unsplit": constant.verify_unsplit(ids, slot, "exact"),
    }
    expected = torch.tensor(taps, dtype=torch.float32).repeat_interleave(TINY.hidden_size)
    for name, out in passes.items():
        rows = 4 if name == "split" else 5
        assert torch.equal(out.features, expected.expand(rows, -1)), name


def test_no_taps_no_features(constant):
    slot = TargetState(TINY, 40).slot()
    assert constant.prefill(torch.arange(5), slot).features is None


def test_features_are_residuals_of_the_very_layers():
    """On a real target: a tap equals the input that the next layer gets."""
    target = random_target(TINY)
    seen = {}
    for i, layer in enumerate(target.layers):

        def mix(x, step, _i=i, _original=layer.mix):
            seen[_i] = x.clone()
            return _original(x, step)

        layer.mix = mix
    features = target.prefill(torch.arange(6), TargetState(TINY, 40).slot(0, (0, 2))).features
    assert torch.equal(features, torch.cat((seen[1], seen[3]), -1))


def test_the_drafter_asks_for_its_own_layers():
    """The engine taps `target_layer_ids`, and only for a system that drafts."""
    from scripted import scripted_engine

    engine = scripted_engine()
    for system, taps in (("dflash", TINY_DRAFTER.target_layer_ids), ("ar", ())):
        stream = engine.stream(prompt_ids(), system=system)
        next(stream)
        assert stream._sequence.slot.tap_layers == taps
        stream.close()


def test_context_is_all_that_features_change():
    """Other features of an old token, another proposal: the context is read."""
    from builders import random_drafter

    drafter, target = random_drafter(TINY_DRAFTER), random_target(TINY)
    features = torch.randn(10, 96, generator=torch.Generator().manual_seed(0))
    other = features.clone()
    other[4] += 1
    blocks = []
    for f in (features, features, other):
        slot = DrafterState(TINY_DRAFTER, 40).slot()
        drafter.extend(f, slot)
        blocks.append(drafter._block(target, 7, slot, drafter.config.block_size))
    assert torch.equal(blocks[0], blocks[1])
    assert not torch.allclose(blocks[0], blocks[2], atol=1e-3)
