"""Scripted runs whose rounds stay on the device: through the interpreter where there is no GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.scripted_models import RECIPE, TINY_SHAPE, expected_of, said, traces
from hybridspec.bench.scripted.answers import Answers
from hybridspec.bench.scripted.check import check_control
from hybridspec.bench.scripted.device import DeviceExecutor
from hybridspec.bench.scripted.model import Pair
from hybridspec.bench.scripted.shapes import Shape

pytestmark = pytest.mark.full  # minutes, interpreted
CONTEXT, TOKENS = 12, 8
ALONG = {"category": "coding", "tokens": TOKENS}


@pytest.fixture(scope="module")
def answers() -> Answers:
    """Two layers, one of each kind."""
    layers = ("linear_attention", "full_attention")
    shape = Shape(
        replace(TINY_SHAPE.target, layer_types=layers),
        replace(TINY_SHAPE.drafter, target_layer_ids=(0, 1), num_target_layers=2),
        TINY_SHAPE.outside,
    )
    pair = Pair.make(shape, RECIPE, traces(), torch.device("cpu"), torch.float32, 0)
    made = Answers(pair, DeviceExecutor(pair, 64, "eager"), 64)
    made.prompt(0, CONTEXT)
    return made


def test_known_tokens_and_plain_decoding_s_bits_in_fewer_rounds(answers):
    right = expected_of(answers, **ALONG)
    answer = said(answers, "static:4", **ALONG)
    right.check("static:4", "exact", answer)
    assert len(answer.rounds) < TOKENS  # the script's drafts were taken
    assert {r.w for r in answer.rounds} <= {1, 2, 3, 4}


def test_a_commit_that_is_one_short_is_found(answers):
    right = expected_of(answers, **ALONG)
    assert check_control(right, said(answers, "static:4", forget=True, **ALONG))
