"""Measurements: what is run, not how long it takes."""

from __future__ import annotations

import time

import pytest
import torch

from builders import random_target
from hybridspec.calibration.measure import (
    _spread,
    expert_slope,
    interleaved,
    stage0_slope,
    typical_rounds,
)
from hybridspec.runtime.state import TargetState
from scripted import TINY

CPU = torch.device("cpu")


def test_variants_run_in_turn_after_a_warm_up():
    seen: list[int] = []
    ms = interleaved({1: lambda: seen.append(1), 2: lambda: seen.append(2)}, 3, CPU)
    assert seen == [1, 2] * 4
    assert set(ms) == {1, 2}


def test_times_are_ms():
    ms = interleaved({1: lambda: time.sleep(0.001), 2: lambda: time.sleep(0.02)}, 3, CPU)
    assert ms[1] >= 1  # a sleep is never shorter than asked for
    assert ms[2] >= 20


@pytest.mark.parametrize(("count", "rows", "k"), [(4, 16, 4), (5, 16, 4), (64, 16, 4), (7, 3, 2)])
def test_spread_has_exactly_so_many_experts(count, rows, k):
    experts = _spread(count, rows, k, torch.Generator().manual_seed(0))
    assert len(set(experts.flatten().tolist())) == min(count, rows * k)
    assert all(len(set(row)) == k for row in experts.tolist())


def test_stage_0_leaves_the_state():
    target = random_target(TINY)
    slot = TargetState(TINY, 64).slot()
    target.prefill(torch.arange(10), slot)
    before, length = slot.gdn.clone(), slot.length
    line = stage0_slope(target, slot, turns=2)
    assert torch.equal(slot.gdn, before)
    assert slot.length == length
    assert line.intercept + 9 * line.slope > 0  # the mean of the times


def test_the_experts_slope_is_for_one_layer(monkeypatch):
    target = random_target(TINY)
    calls: list[int] = []

    def combine(residual, u, experts, weights):
        calls.append(len(set(experts.flatten().tolist())))

    for layer in target.layers:
        monkeypatch.setattr(layer.mlp, "combine", combine)
    expert_slope(target, turns=1)
    assert len(calls) == TINY.num_hidden_layers * 2 * len(set(calls))
    assert {min(calls), max(calls)} == {TINY.num_experts_per_tok, TINY.num_experts}


def test_a_machine_that_slows_down_changes_no_ratio():
    """Three prompts, the second while the machine is half as fast; one answer is disturbed."""
    samples = {
        (0, 0): [(10, 0.1), (10, 0.2), (10, 0.1)],
        (2, 15): [(5, 0.1), (5, 0.2), (5, 0.1)],
        (3, 15): [(4, 0.12), (4, 0.24), (4, 9.0)],
    }
    ms = typical_rounds(samples)
    assert ms[2, 15] / ms[0, 0] == pytest.approx(2.0)
    assert ms[3, 15] / ms[0, 0] == pytest.approx(3.0)
