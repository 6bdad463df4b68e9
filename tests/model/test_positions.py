"""Positions: text has one axis, chunks continue it, and scores depend on differences."""

from __future__ import annotations

import json

import pytest
import torch

from builders import PATTERN, hf_target, random_target, target_config
from hybridspec.checkpoint import read_target_config, save_target
from hybridspec.model.layers import Rope
from hybridspec.runtime.state import TargetState

CONFIG = target_config(layer_types=PATTERN, partial_rotary_factor=0.5)
SECTIONS = [[8, 0, 0], [3, 3, 2], [1, 2, 5]]


@pytest.mark.parametrize("section", SECTIONS)
def test_three_position_axes_are_one_for_text(section):
    """transformers with any mrope_section against ours, which has none."""
    target = random_target(CONFIG, dtype=torch.float64)
    hf, ids = hf_target(target), torch.arange(40)
    hf.model.rotary_emb.mrope_section = section
    ours = target.prefill(ids, TargetState(CONFIG, 64, dtype=torch.float64).slot()).logits
    theirs = hf(ids[None]).logits[0, -1:].double()
    torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=0)  # theirs rotates in float32


@pytest.mark.parametrize("section", [None, *SECTIONS])
def test_the_section_in_a_config_changes_nothing(tmp_path, section):
    save_target(tmp_path, random_target(CONFIG))
    path = tmp_path / "config.json"
    document = json.loads(path.read_text())
    rope = document.get("text_config", document)["rope_parameters"]
    assert rope.pop("mrope_section")
    if section:
        rope["mrope_section"] = section
    path.write_text(json.dumps(document))
    assert read_target_config(tmp_path) == CONFIG


def test_rotation_at_a_position_is_by_its_angles():
    """Pairs (i, i + half) turn by position / theta^(2i / n); the rest of the head stays."""
    rope = Rope(100.0, 4, 50, torch.device("cpu"), torch.float64)
    x = torch.randn(3, 2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = rope.rotate(x, 11)
    for t in range(3):
        for i, angle in enumerate(((11 + t) / 1.0, (11 + t) / 10.0)):
            pair = torch.complex(x[t, :, i], x[t, :, i + 2])
            turn = torch.polar(torch.ones(1), torch.tensor([angle]))
            turned = torch.view_as_real(pair * turn).T
            # the tables are computed from float32 angles
            torch.testing.assert_close(
                torch.stack((y[t, :, i], y[t, :, i + 2])), turned, atol=1e-5, rtol=0
            )
    assert torch.equal(y[..., 4:], x[..., 4:])


def test_rotation_keeps_lengths_and_differences():
    rope = Rope(1e4, 8, 300, torch.device("cpu"), torch.float64)
    q, k = torch.randn(2, 1, 1, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores = [(rope.rotate(q, 7 + at) * rope.rotate(k, at)).sum() for at in (0, 1, 90, 250)]
    torch.testing.assert_close(torch.stack(scores), scores[0].expand(4), atol=1e-4, rtol=0)
    assert torch.equal(rope.rotate(q, 0), q)


@pytest.mark.parametrize("cuts", [(1,), (13,), (39,), (5, 6, 30)])
def test_chunks_continue_the_positions(cuts):
    target, ids = random_target(CONFIG, dtype=torch.float64), torch.arange(40)
    whole, parts = (TargetState(CONFIG, 64, dtype=torch.float64).slot() for _ in range(2))
    expected = target.prefill(ids, whole).logits
    for part in torch.tensor_split(ids, cuts):
        logits = target.prefill(part, parts).logits
    # 40 tokens and four layers of float64 roundings
    torch.testing.assert_close(logits, expected, atol=1e-11, rtol=0)
    torch.testing.assert_close(parts.keys[:, :, :40], whole.keys[:, :, :40], atol=1e-11, rtol=0)
