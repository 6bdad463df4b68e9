from __future__ import annotations

import json

import pytest
import torch
from checkpoint_files import TINY_LAYERS, fixture, tensors_of, tiny_drafter, tiny_target

from builders import random_drafter, random_target, target_config
from hybridspec.checkpoint import load_target, read_target_config, save_drafter, save_target
from hybridspec.checkpoint.writer import target_json


def test_names_are_those_of_the_published_checkpoints(tmp_path):
    target = random_target(target_config(), context=0)
    save_target(tmp_path, target)
    real = {row[0] for row in fixture("qwen3.6-35b-a3b")["tensors"]}
    mine = {
        name.replace(f".layers.{i}.", ".layers.{}.")
        for name in tensors_of(tmp_path)
        for i in (0, 3)
        if f".layers.{i}." in name
    }
    assert mine == {name for name in real if "{}" in name}
    assert {n for n in tensors_of(tmp_path) if ".layers." not in n} == {
        name for name in real if "{}" not in name
    }


@pytest.mark.parametrize("limit", [1, 3000, 20_000])
def test_files_are_cut_by_bytes_and_indexed(tmp_path, limit):
    target = tiny_target(tmp_path / "whole")
    save_target(tmp_path, target, shard_bytes=limit)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert sorted(set(index["weight_map"].values())) == files
    assert files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    sizes = dict.fromkeys(files, 0)
    for name, tensor in tensors_of(tmp_path).items():
        sizes[index["weight_map"][name]] += tensor.nbytes
    alone = [list(index["weight_map"].values()).count(file) == 1 for file in files]
    assert all(sizes[f] <= limit or one for f, one in zip(files, alone, strict=True))
    assert index["metadata"]["total_size"] == sum(sizes.values())
    loaded = load_target(tmp_path, "cpu", torch.float32)
    for name, slot in target.slots().items():
        assert torch.equal(slot, loaded.slots()[name]), name


def test_a_smaller_save_leaves_no_files_of_an_earlier_one(tmp_path):
    target = tiny_target(tmp_path)
    save_target(tmp_path, target, shard_bytes=1000)
    save_target(tmp_path, target)
    assert {path.name for path in tmp_path.iterdir()} == {"config.json", "model.safetensors"}


def test_one_dtype_for_all(tmp_path):
    target = random_target(target_config(layer_types=TINY_LAYERS), context=0)
    save_target(tmp_path, target, dtype=torch.bfloat16)
    assert {tensor.dtype for tensor in tensors_of(tmp_path).values()} == {torch.bfloat16}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["text_config"]["dtype"] == "bfloat16"


def test_without_a_dtype_each_slot_keeps_its_own(tmp_path):
    target = random_target(target_config(), dtype=torch.bfloat16, context=0)
    save_target(tmp_path, target)
    tensors = tensors_of(tmp_path)
    assert tensors["model.language_model.layers.0.linear_attn.A_log"].dtype == torch.float32
    assert tensors["lm_head.weight"].dtype == torch.bfloat16


def test_drafter_names_are_those_of_the_published_ones(tmp_path):
    drafter = tiny_drafter(tmp_path, random_target(target_config(layer_types=TINY_LAYERS)))
    real = {row[0] for row in fixture("dflash-35b")["tensors"]}
    assert {
        name.replace(".1.", ".{}.").replace(".0.", ".{}.") for name in tensors_of(tmp_path)
    } == real
    assert set(tensors_of(tmp_path)) == set(drafter.slots())


def test_a_drafter_in_many_files(tmp_path):
    drafter = random_drafter_of(target_config(layer_types=TINY_LAYERS))
    save_drafter(tmp_path, drafter, dtype=torch.float16, shard_bytes=4000)
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    for name, tensor in tensors_of(tmp_path).items():
        assert torch.equal(tensor, drafter.slots()[name].half()), name


def random_drafter_of(config):
    from builders import drafter_config

    changes = {"layer_types": ("full_attention",), "target_layer_ids": (0, 1)}
    return random_drafter(drafter_config(config, **changes))


def test_the_real_config_written_anew_reads_the_same(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(fixture("qwen3.6-35b-a3b")["config"]))
    config = read_target_config(tmp_path)
    written = target_json(config, torch.bfloat16)
    real = fixture("qwen3.6-35b-a3b")["config"]["text_config"]
    assert written["text_config"]["rope_parameters"] == real["rope_parameters"]
    same = written["text_config"].keys() & real.keys()
    assert {k: written["text_config"][k] for k in same} == {k: real[k] for k in same}


def test_transformers_reads_what_is_written(tmp_path):
    """Every slot arrives in transformers' own model, bit for bit."""
    from transformers import AutoModelForCausalLM

    target = random_target(target_config(), context=0)
    save_target(tmp_path, target)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    state = theirs.state_dict()
    for name, slot in target.slots().items():
        full = name if name == "lm_head.weight" else f"model.{name}"
        found = state.get(full, state.get(full.replace("model.", "model.language_model.", 1)))
        assert torch.equal(slot, found), name
