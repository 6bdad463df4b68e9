"""A target whose verifications are launches, through the model's interface: rounds, other verifiers
in between, and what is left to the model."""

from __future__ import annotations

import logging

import pytest
import torch

from builders import fill, target_config
from hybridspec.kernels import support
from hybridspec.model.target import Target
from hybridspec.runtime.launched import LaunchedTarget
from hybridspec.runtime.state import TargetSlot, TargetState

TOLERANCE = 2e-4  # as in test_target_pass.py
TAPS = (0, 1)
SMALL = target_config(layer_types=("linear_attention", "full_attention"))


def model(device: torch.device, dtype: torch.dtype) -> Target:
    target = Target(SMALL, device, dtype)
    fill(target, 3)
    target.set_context(96)
    return target


def slot(target: Target) -> TargetSlot:
    state = TargetState(SMALL, 96, device=target.device, dtype=target.dtype, joint=True)
    return state.slot(0, TAPS)


@pytest.fixture
def pair(device):
    """Launches in float32 and the model in float64, each with a slot and a prompt in it."""
    ours, law = LaunchedTarget(model(device, torch.float32)), model(device, torch.float64)
    slots = slot(ours), slot(law)
    for target, s in zip((ours, law), slots, strict=True):
        target.prefill(torch.arange(7, device=device), s)
    return ours, law, slots


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


def test_a_round_is_the_model_s(pair, device):
    ours, law, (mine, theirs) = pair
    ids = torch.tensor([5, 60, 11, 2], device=device)
    looked, exact = ours.stage0(ids, mine, "exact"), law.stage0(ids, theirs, "exact")
    assert torch.equal(looked.experts, exact.experts)
    assert distance(looked.weights, exact.weights) < TOLERANCE
    out = ours.stage1(looked, 3, mine, "exact")
    expected = law.stage1(exact, 3, theirs, "exact")
    assert out.logits.shape == (3, SMALL.vocab_size)
    assert distance(out.logits, expected.logits) < TOLERANCE
    assert out.features is not None
    assert expected.features is not None
    assert distance(out.features, expected.features) < TOLERANCE
    ours.commit(mine, 2, "exact")
    law.commit(theirs, 2, "exact")
    assert mine.length == theirs.length == 9
    assert distance(mine.gdn, theirs.gdn) < TOLERANCE


def test_what_a_pass_gave_outlives_the_next(pair, device):
    ours, _, (mine, _) = pair
    first = ours.verify_unsplit(torch.tensor([5, 60], device=device), mine, "exact")
    kept = first.logits.clone(), first.features.clone()
    ours.verify_unsplit(torch.tensor([9, 8], device=device), mine, "exact")
    assert torch.equal(first.logits, kept[0])
    assert torch.equal(first.features, kept[1])


def test_verifiers_take_turns(pair, device):
    """`replay` leaves tokens pending, which a pass of another must first fold into the state."""
    ours, law, (mine, theirs) = pair
    for verifier in ("replay", "block", "replay", "per-token"):
        ids = torch.tensor([4, 7], device=device)
        out = ours.verify_unsplit(ids, mine, verifier)
        expected = law.verify_unsplit(ids, theirs, "exact")
        assert distance(out.logits, expected.logits) < TOLERANCE, verifier
        assert distance(mine.gdn, theirs.gdn) < TOLERANCE, verifier  # with tokens pending, too
        ours.commit(mine, 2, verifier)
        law.commit(theirs, 2, "exact")
    assert distance(mine.gdn, theirs.gdn) < TOLERANCE


def test_passes_whose_experts_are_recorded_are_the_model_s_own(pair, device, monkeypatch, caplog):
    """What kernels left pending is read there, and what such a pass leaves is read by kernels."""
    monkeypatch.setattr(support, "_said", {})
    ours, law, (mine, theirs) = pair
    ids = torch.tensor([4, 7], device=device)
    for routes in (None, [], None):
        mine.routes = routes
        with caplog.at_level(logging.WARNING, "hybridspec"):
            out = ours.verify_unsplit(ids, mine, "replay")
        expected = law.verify_unsplit(ids, theirs, "exact")
        assert distance(out.logits, expected.logits) < TOLERANCE
        ours.commit(mine, 2, "replay")
        law.commit(theirs, 2, "exact")
    assert distance(mine.gdn, theirs.gdn) < TOLERANCE
    assert len([r.message for r in caplog.records if "recorded" in r.message]) == 1
