"""All GDN verifiers on CUDA: plain decoding's tokens in float64, and a state that can be read."""

from __future__ import annotations

import pytest
import torch

from builders import drafter_config, fill, target_config
from hybridspec import Engine, SamplingParams
from hybridspec.model.drafter import Drafter
from hybridspec.model.gdn import VERIFY
from hybridspec.model.target import Target

pytestmark = pytest.mark.gpu
PROMPT = list(range(1, 20))


@pytest.fixture(scope="module")
def engine():
    config = target_config()
    target = Target(config, "cuda", torch.float64)
    drafter = Drafter(drafter_config(config), "cuda", torch.float64)
    fill(target, 0)
    fill(drafter, 1)
    return Engine(target, drafter, max_context=300)


@pytest.mark.parametrize("w", [1, 4, 16])
@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "top_p": 0.9, "seed": 5}])
@pytest.mark.parametrize("verifier", VERIFY)
def test_any_verifier_agrees_with_plain_decoding(engine, monkeypatch, verifier, sampling, w):
    monkeypatch.setenv("HYBRIDSPEC_CHECK", "1")
    params = SamplingParams(max_tokens=60, **sampling)
    plain = engine.generate(PROMPT, params, system="ar").token_ids
    assert engine.generate(PROMPT, params, system=f"static:{w}:{verifier}").token_ids == plain
