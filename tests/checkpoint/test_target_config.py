from __future__ import annotations

import json

import pytest
from checkpoint_files import edit_json, fixture

from builders import target_config
from hybridspec.checkpoint import read_target_config
from hybridspec.checkpoint.writer import target_json
from hybridspec.errors import CheckpointError


def write(folder, data) -> None:
    (folder / "config.json").write_text(json.dumps(data))


@pytest.fixture
def real(tmp_path):
    """A folder with the configuration of Qwen3.6-35B-A3B."""
    write(tmp_path, fixture("qwen3.6-35b-a3b")["config"])
    return tmp_path


def edit(folder, **changes) -> None:
    edit_json(folder / "config.json", lambda data: data["text_config"].update(changes))


def test_35b_shapes(real):
    config = read_target_config(real)
    assert config.num_hidden_layers == 40
    assert config.full_layers == tuple(range(3, 40, 4))
    assert (config.hidden_size, config.vocab_size) == (2048, 248320)
    assert (config.conv_dim, config.value_dim, config.rotary_dim) == (8192, 4096, 64)
    assert (config.num_experts, config.num_experts_per_tok) == (256, 8)
    assert (config.rope_theta, config.tie_word_embeddings) == (1e7, False)


def test_flat_config_reads_the_same(real, tmp_path_factory):
    nested = fixture("qwen3.6-35b-a3b")["config"]
    flat = tmp_path_factory.mktemp("flat")
    write(flat, nested["text_config"] | {"architectures": ["Qwen3_5MoeForCausalLM"]})
    assert read_target_config(flat) == read_target_config(real)


def test_transformers_own_configs_read_as_they_compute(tmp_path):
    from transformers import Qwen3_5MoeConfig, Qwen3_5MoeTextConfig

    text = Qwen3_5MoeTextConfig(
        num_hidden_layers=6, hidden_size=128, rms_norm_eps=1e-5, architectures=["x"]
    )
    text.architectures = ["Qwen3_5MoeForCausalLM"]
    text.save_pretrained(tmp_path / "flat")
    both = Qwen3_5MoeConfig(text_config=text.to_dict())
    both.architectures = ["Qwen3_5MoeForConditionalGeneration"]
    both.save_pretrained(tmp_path / "nested")
    flat = read_target_config(tmp_path / "flat")
    assert flat == read_target_config(tmp_path / "nested")
    assert list(flat.layer_types) == text.layer_types
    assert (flat.rms_norm_eps, flat.head_dim) == (1e-5, text.head_dim)
    assert flat.rope_theta == text.rope_parameters["rope_theta"]


def test_missing_layer_types_follow_the_interval(real):
    edit(real, layer_types=None, full_attention_interval=3, num_hidden_layers=7)
    assert read_target_config(real).full_layers == (2, 5)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("place", ["top", "text", "both"])
def test_tied_head_from_either_place(real, tied, place):
    def change(data):
        del data["tie_word_embeddings"]
        if place != "text":
            data["tie_word_embeddings"] = tied
        if place != "top":
            data["text_config"]["tie_word_embeddings"] = tied

    edit_json(real / "config.json", change)
    assert read_target_config(real).tie_word_embeddings is tied


def test_rope_theta_at_the_top_level_of_the_text_config(real):
    edit(real, rope_parameters=None, rope_theta=5e6)
    config = read_target_config(real)
    assert (config.rope_theta, config.partial_rotary_factor) == (5e6, 0.25)


def test_written_config_reads_back(tmp_path):
    import torch

    config = target_config(tie_word_embeddings=True, rope_theta=1e6, rms_norm_eps=1e-5)
    write(tmp_path, target_json(config, torch.bfloat16))
    assert read_target_config(tmp_path) == config


@pytest.mark.parametrize(
    ("architecture", "model_type"),
    [
        ("Qwen3NextForCausalLM", "qwen3_next"),
        ("LlamaForCausalLM", "llama"),
        ("Qwen3_5ForConditionalGeneration", "qwen3_5"),
        ("DFlashDraftModel", "qwen3"),
        ("Qwen3_5MoeForCausalLM", "qwen3_next"),
    ],
)
def test_wrong_architecture_names_what_is_supported(real, architecture, model_type):
    changes = {"architectures": [architecture], "model_type": model_type}
    edit_json(real / "config.json", lambda data: data.update(changes))
    with pytest.raises(CheckpointError) as raised:
        read_target_config(real)
    for word in (architecture, model_type, "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe"):
        assert word in str(raised.value)


def test_no_config_is_not_a_checkpoint(tmp_path):
    with pytest.raises(CheckpointError, match=r"is not a checkpoint: it has no config\.json"):
        read_target_config(tmp_path)


@pytest.mark.parametrize("nested", [True, False])
def test_quantized_weights_are_refused_by_method(real, nested):
    quantized = {"quant_method": "gptq", "bits": 4}

    def change(data):
        (data["text_config"] if nested else data)["quantization_config"] = quantized

    edit_json(real / "config.json", change)
    with pytest.raises(CheckpointError, match="quant_method 'gptq' is not supported"):
        read_target_config(real)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attention_bias", True),
        ("hidden_act", "gelu"),
        ("attn_output_gate", False),
        ("mamba_ssm_dtype", "bfloat16"),
        ("use_sliding_window", True),
        ("norm_topk_prob", False),
        ("decoder_sparse_step", 2),
        ("mlp_only_layers", [0]),
        ("hidden_size", None),
        ("max_position_embeddings", "many"),
        ("num_experts_per_tok", 257),
        ("num_key_value_heads", 3),
        ("linear_num_key_heads", 3),
        ("layer_types", ["linear_attention", "sliding_attention"]),
        ("layer_types", []),
        ("num_hidden_layers", 39),
        ("partial_rotary_factor", 0.5),
    ],
)
def test_a_value_the_engine_does_not_compute_is_named(real, field, value):
    edit(real, **{field: value})
    named = "num_attention_heads" if field == "num_key_value_heads" else field
    named = "linear_num_value_heads" if field == "linear_num_key_heads" else named
    with pytest.raises(CheckpointError, match=named):
        read_target_config(real)


@pytest.mark.parametrize("factor", [2.0, 1 / 256, 3 / 256])
def test_a_rotated_share_that_is_no_even_number_of_dimensions_is_named(real, factor):
    rope = {"rope_theta": 1e7, "partial_rotary_factor": factor}
    edit(real, rope_parameters=rope, partial_rotary_factor=None)
    with pytest.raises(CheckpointError, match=f"partial_rotary_factor {factor} rotates"):
        read_target_config(real)


@pytest.mark.parametrize("section", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("name", ["rope_type", "type"])
def test_scaled_rope_is_named(real, section, name):
    edit(real, **{section: {name: "yarn", "factor": 4.0, "rope_theta": 1e7}})
    with pytest.raises(CheckpointError, match=r"'yarn' with factor 4\.0; only 'default'"):
        read_target_config(real)


def test_no_rope_theta_is_named(real):
    edit(real, rope_parameters={"rope_type": "default"})
    with pytest.raises(CheckpointError, match="rope_theta is missing"):
        read_target_config(real)
