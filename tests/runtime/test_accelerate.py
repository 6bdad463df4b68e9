"""Which models run as kernels, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.model.drafter import Drafter
from hybridspec.runtime.accelerate import accelerated, accelerated_drafter, drafter_refusal

CONFIG = drafter_config(target_config())


def test_on_a_cpu_models_stay_as_they_are():
    target, drafter = random_target(target_config()), random_drafter(CONFIG)
    assert accelerated(target) is target
    assert accelerated_drafter(drafter, target) is drafter


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_drafters_that_kernels_serve(dtype):
    assert drafter_refusal(Drafter(CONFIG, dtype=dtype)) is None


@pytest.mark.parametrize(
    ("changes", "dtype", "said"),
    [
        ({}, torch.float64, "do not compute in torch.float64"),
        ({"block_size": 24}, torch.float32, "at most 16 rows and has 24"),
        ({"head_dim": 512}, torch.float32, "at most 256 values and have 512"),
    ],
)
def test_others_are_told_why_not(changes, dtype, said):
    reason = drafter_refusal(Drafter(replace(CONFIG, **changes), dtype=dtype))
    assert reason is not None
    assert said in reason
