from __future__ import annotations

import pytest
import torch

from hybridspec.checkpoint.names import Place, place_drafter, place_target


@pytest.mark.parametrize("prefix", ["model.language_model.", "model.", ""])
@pytest.mark.parametrize(
    "name", ["embed_tokens.weight", "layers.3.mlp.experts.gate_up_proj", "lm_head.weight"]
)
def test_prefixes_are_dropped(prefix, name):
    assert place_target(prefix + name) == Place(name)


@pytest.mark.parametrize(
    "name",
    [
        "mtp.fc.weight",
        "mtp.layers.0.mlp.experts.3.down_proj.weight",
        "visual.pos_embed.weight",
        "model.visual.blocks.0.attn.qkv.bias",
    ],
)
def test_parts_that_are_not_run_are_skipped(name):
    assert place_target(name) is None


@pytest.mark.parametrize(
    "name", ["model.mtpx.weight", "mtp", "model.visuals.weight", "model.language_model.visual.x"]
)
def test_nothing_else_is_skipped(name):
    assert place_target(name) is not None


@pytest.mark.parametrize(
    ("projection", "place"),
    [
        ("gate", Place("layers.1.mlp.experts.gate_up_proj", 12, "gate")),
        ("up", Place("layers.1.mlp.experts.gate_up_proj", 12, "up")),
        ("down", Place("layers.1.mlp.experts.down_proj", 12)),
    ],
)
def test_single_experts(projection, place):
    name = f"layers.1.mlp.experts.12.{projection}_proj.weight"
    assert place_target(f"model.language_model.{name}") == place
    assert str(place) == name


@pytest.mark.parametrize(
    "name",
    [
        "layers.1.mlp.experts.01.up_proj.weight",
        "layers.1.mlp.experts.1.up_proj.qweight",
        "layers.1.mlp.shared_expert.up_proj.weight",
    ],
)
def test_names_that_only_look_like_experts_stay_themselves(name):
    assert place_target(name) == Place(name)


def test_gate_rows_come_first():
    stack = torch.arange(2 * 4 * 3).view(2, 4, 3)
    slots = {"gate_up_proj": stack}
    assert torch.equal(Place("gate_up_proj", 1, "gate").view(slots), stack[1, :2])
    assert torch.equal(Place("gate_up_proj", 1, "up").view(slots), stack[1, 2:])
    assert Place("gate_up_proj", 1, "up").view(slots).data_ptr() == stack[1, 2:].data_ptr()


def test_drafter_names_lose_one_prefix_and_nothing_is_skipped():
    assert place_drafter("model.fc.weight") == place_drafter("fc.weight") == Place("fc.weight")
    assert place_drafter("mtp.fc.weight") == Place("mtp.fc.weight")
