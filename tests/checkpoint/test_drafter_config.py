from __future__ import annotations

import json

import pytest
import torch
from checkpoint_files import edit_json, fixture

from builders import drafter_config, target_config
from hybridspec.checkpoint import read_drafter_config
from hybridspec.checkpoint.writer import drafter_json
from hybridspec.errors import CheckpointError


@pytest.fixture(params=["dflash-35b", "dflash-35b-old"])
def folder(request, tmp_path):
    """A folder with the configuration of either generation."""
    (tmp_path / "config.json").write_text(json.dumps(fixture(request.param)["config"]))
    return tmp_path


def edit(folder, **changes) -> None:
    edit_json(folder / "config.json", lambda data: data.update(changes))


@pytest.mark.parametrize("folder", ["dflash-35b"], indirect=True)
def test_current_generation(folder):
    config = read_drafter_config(folder)
    assert config.layer_types == ("sliding_attention",) * 5 + ("full_attention",)
    assert config.target_layer_ids == (1, 6, 11, 16, 22, 27, 32, 37)
    assert (config.block_size, config.mask_token_id) == (16, 248077)
    assert (config.num_target_layers, config.num_key_value_heads) == (40, 8)
    assert (config.sliding_window, config.is_causal, config.rope_theta) == (4096, None, 1e7)


@pytest.mark.parametrize("folder", ["dflash-35b-old"], indirect=True)
def test_old_generation(folder):
    config = read_drafter_config(folder)
    assert config.layer_types == ("full_attention",) * 8
    assert config.target_layer_ids == (1, 10, 19, 28, 37)
    assert (config.block_size, config.mask_token_id) == (16, 248070)
    assert (config.num_target_layers, config.num_key_value_heads) == (40, 4)
    assert (config.sliding_window, config.is_causal, config.rope_theta) == (None, None, 1e7)


@pytest.mark.parametrize("folder", ["dflash-35b-old"], indirect=True)
def test_missing_layer_types_are_all_full(folder):
    before = read_drafter_config(folder)
    edit(folder, layer_types=None)
    assert read_drafter_config(folder) == before
    edit(folder, use_sliding_window=True)
    with pytest.raises(CheckpointError, match="use_sliding_window is true"):
        read_drafter_config(folder)


@pytest.mark.parametrize("folder", ["dflash-35b-old"], indirect=True)
def test_yarn_is_refused_by_name(folder):
    yarn = {"rope_type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096}
    edit(folder, rope_scaling=yarn)
    with pytest.raises(CheckpointError, match=r"rope_scaling.*'yarn' with factor 64\.0"):
        read_drafter_config(folder)


@pytest.mark.parametrize("value", [True, False])
def test_explicit_causality(folder, value):
    edit(folder, is_causal=value)
    assert read_drafter_config(folder).is_causal is value


@pytest.mark.parametrize("causal", [None, True])
def test_written_config_reads_back(tmp_path, causal):
    config = drafter_config(target_config(), rope_theta=1e6, is_causal=causal)
    (tmp_path / "config.json").write_text(json.dumps(drafter_json(config, torch.bfloat16)))
    assert read_drafter_config(tmp_path) == config


def test_places_that_differ_are_named(folder):
    edit_json(folder / "config.json", lambda data: data["dflash_config"].update(block_size=16))
    edit(folder, block_size=8)
    with pytest.raises(CheckpointError, match=r"block_size is 16 in .*dflash_config but 8 in"):
        read_drafter_config(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attention_bias", True),
        ("hidden_act", "gelu"),
        ("input_embedding_scale", 2.0),
        ("output_multiplier", 0.5),
        ("final_logit_softcapping", 30.0),
        ("partial_rotary_factor", 0.5),
        ("head_dim", None),
        ("num_target_layers", "forty"),
        ("num_attention_heads", 33),
        ("layer_types", ["linear_attention"] * 8),
        ("is_causal", "yes"),
        ("dflash_config", 3),
        ("rope_theta", -1),
    ],
)
def test_a_value_the_engine_does_not_compute_is_named(folder, field, value):
    edit(folder, **{field: value})
    with pytest.raises(CheckpointError, match=field):
        read_drafter_config(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mask_token_id", None),
        ("mask_token_id", -1),
        ("target_layer_ids", []),
        ("target_layer_ids", [1, -2]),
        ("target_layer_ids", 3),
        ("output_multiplier", 0.5),
    ],
)
def test_a_value_in_the_block_section_is_named(folder, field, value):
    edit_json(folder / "config.json", lambda data: data["dflash_config"].update({field: value}))
    with pytest.raises(CheckpointError, match=field):
        read_drafter_config(folder)


@pytest.mark.parametrize("folder", ["dflash-35b"], indirect=True)
@pytest.mark.parametrize(("field", "value"), [("sliding_window", None), ("use_sliding_window", 0)])
def test_sliding_layers_need_their_window(folder, field, value):
    edit(folder, **{field: value})
    with pytest.raises(CheckpointError, match=field):
        read_drafter_config(folder)


@pytest.mark.parametrize("architecture", ["DFlash2DraftModel", "Qwen3ForCausalLM", "Eagle3Model"])
def test_other_drafters_are_refused_by_name(folder, architecture):
    edit(folder, architectures=[architecture])
    with pytest.raises(CheckpointError, match=f"{architecture}.*DFlashDraftModel"):
        read_drafter_config(folder)


@pytest.mark.parametrize("method", ["gptq", "fp8", "compressed-tensors"])
def test_quantized_drafters_are_refused_by_method(folder, method):
    edit(folder, quantization_config={"quant_method": method})
    with pytest.raises(CheckpointError, match=f"quant_method '{method}'"):
        read_drafter_config(folder)
