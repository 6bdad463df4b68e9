from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from hybridspec.checkpoint.shards import INDEX, open_shards
from hybridspec.errors import CheckpointError


def write(folder, files: dict[str, list[str]], index: dict[str, str] | None = None) -> None:
    for file, names in files.items():
        save_file({name: torch.ones(1) for name in names}, folder / file)
    if index is not None:
        (folder / INDEX).write_text(json.dumps({"weight_map": index}))


def found(folder) -> dict[str, list[str]]:
    return {s.path.name: [entry.name for entry in s.entries] for s in open_shards(folder)}


def test_an_index_decides_which_files_count(tmp_path):
    write(tmp_path, {"x.safetensors": ["a"], "y.safetensors": ["b"]}, {"a": "x.safetensors"})
    assert found(tmp_path) == {"x.safetensors": ["a"]}


def test_a_single_file_wins_over_others(tmp_path):
    write(tmp_path, {"model.safetensors": ["a"], "consolidated.safetensors": ["b"]})
    assert found(tmp_path) == {"model.safetensors": ["a"]}


def test_without_an_index_all_files_count(tmp_path):
    write(tmp_path, {"b.safetensors": ["b"], "a.safetensors": ["a"]})
    assert found(tmp_path) == {"a.safetensors": ["a"], "b.safetensors": ["b"]}


def test_a_missing_file_of_an_index_is_named(tmp_path):
    index = {"a": "x.safetensors", "b": "y.safetensors"}
    write(tmp_path, {"x.safetensors": ["a"]}, index)
    with pytest.raises(CheckpointError, match=r"lacks 1 of its 2 weight files: y\.safetensors"):
        open_shards(tmp_path)


def test_a_missing_numbered_file_is_named_without_an_index(tmp_path):
    names = [f"model-{i:05d}-of-00009.safetensors" for i in (1, 4, 9)]
    write(tmp_path, {name: [name] for name in names})
    missing = r"lacks 6 of its 9 weight files: model-00002-of-00009\.safetensors, .* and 3 more"
    with pytest.raises(CheckpointError, match=missing):
        open_shards(tmp_path)


def test_a_tensor_that_its_file_lacks_is_named(tmp_path):
    index = {"a": "x.safetensors", "b": "x.safetensors"}
    write(tmp_path, {"x.safetensors": ["a"]}, index)
    with pytest.raises(CheckpointError, match=r"1 tensors .*: b \(expected in .*x\.safetensors"):
        open_shards(tmp_path)


def test_a_tensor_in_another_file_than_the_index_says_is_named(tmp_path):
    index = {"a": "x.safetensors", "b": "x.safetensors", "c": "y.safetensors"}
    write(tmp_path, {"x.safetensors": ["a"], "y.safetensors": ["b", "c"]}, index)
    with pytest.raises(CheckpointError, match="not in their files: b"):
        open_shards(tmp_path)


def test_a_tensor_in_two_files_is_named(tmp_path):
    write(tmp_path, {"x.safetensors": ["a", "b"], "y.safetensors": ["b"]})
    with pytest.raises(CheckpointError, match=r"more than one file: b \(in .*x\..*y\.safetensors"):
        open_shards(tmp_path)


@pytest.mark.parametrize("weight_map", [None, {}, ["a"], 3])
def test_an_index_without_a_map_is_named(tmp_path, weight_map):
    write(tmp_path, {"x.safetensors": ["a"]}, {})
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=r"index\.json has no weight_map"):
        open_shards(tmp_path)


@pytest.mark.parametrize("file", ["../x.safetensors", "/etc/passwd", "sub/x.safetensors"])
def test_an_index_stays_in_its_folder(tmp_path, file):
    write(tmp_path, {"x.safetensors": ["a"]}, {"a": file})
    with pytest.raises(CheckpointError, match="expected a file in its own folder"):
        open_shards(tmp_path)


def test_other_formats_are_not_read(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"holds no \*\.safetensors"):
        open_shards(tmp_path)
