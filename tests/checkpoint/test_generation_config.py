from __future__ import annotations

import json

import pytest
from checkpoint_files import fixture

from hybridspec.checkpoint import read_generation_config
from hybridspec.errors import CheckpointError


def write(folder, name: str, data: dict) -> None:
    (folder / name).write_text(json.dumps(data))


def test_both_ends_and_sampling_of_the_real_file(tmp_path):
    write(tmp_path, "generation_config.json", fixture("qwen3.6-35b-a3b")["generation_config"])
    found = read_generation_config(tmp_path)
    assert found.eos_token_ids == (248046, 248044)
    assert (found.do_sample, found.temperature) == (True, 1.0)
    assert (found.top_k, found.top_p, found.min_p) == (20, 0.95, 0.0)


def test_a_single_end(tmp_path):
    write(tmp_path, "generation_config.json", {"eos_token_id": 0})
    found = read_generation_config(tmp_path)
    assert found.eos_token_ids == (0,)
    assert (found.do_sample, found.temperature, found.top_k, found.top_p) == (False, 1.0, 0, 1.0)


@pytest.mark.parametrize("token", ["<|im_end|>", {"content": "<|im_end|>", "special": True}])
@pytest.mark.parametrize("with_file", [True, False])
def test_without_it_the_ends_are_the_tokenizers_and_the_models(tmp_path, token, with_file):
    if with_file:
        write(tmp_path, "generation_config.json", {"do_sample": False})
    write(tmp_path, "tokenizer_config.json", {"eos_token": token})
    added = [{"id": 44, "content": "<|endoftext|>"}, {"id": 46, "content": "<|im_end|>"}]
    write(tmp_path, "tokenizer.json", {"added_tokens": added})
    write(tmp_path, "config.json", {"text_config": {"eos_token_id": 44}, "eos_token_id": 46})
    assert read_generation_config(tmp_path).eos_token_ids == (46, 44)


def test_no_end_anywhere(tmp_path):
    assert read_generation_config(tmp_path).eos_token_ids == ()


def test_an_end_token_without_an_id_is_named(tmp_path):
    write(tmp_path, "tokenizer_config.json", {"eos_token": "<end>"})
    write(tmp_path, "tokenizer.json", {"added_tokens": []})
    with pytest.raises(CheckpointError, match="eos_token '<end>'"):
        read_generation_config(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("eos_token_id", "<|im_end|>"),
        ("eos_token_id", [1, "2"]),
        ("eos_token_id", []),
        ("eos_token_id", -1),
        ("temperature", "hot"),
        ("top_k", -1),
        ("top_p", 0),
        ("do_sample", "yes"),
    ],
)
def test_wrong_values_are_named(tmp_path, field, value):
    write(tmp_path, "generation_config.json", {field: value})
    with pytest.raises(CheckpointError, match=rf"generation_config\.json: {field}"):
        read_generation_config(tmp_path)
