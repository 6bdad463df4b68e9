from __future__ import annotations

import json

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from hybridspec.checkpoint.header import Entry, read_shard
from hybridspec.errors import CheckpointError


@pytest.fixture
def shard(tmp_path):
    path = tmp_path / "model.safetensors"
    tensors = {"a": torch.zeros(3, 4), "b": torch.ones(5, dtype=torch.bfloat16)}
    save_file(tensors, path, {"format": "pt"})
    return path


def write(path, header: object, data: bytes = b"") -> None:
    raw = json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + data)


def test_names_shapes_and_dtypes(shard):
    assert set(read_shard(shard).entries) == {
        Entry("a", "F32", (3, 4), 48),
        Entry("b", "BF16", (5,), 10),
    }


def test_dtypes_that_are_not_loaded_are_still_listed(shard):
    entry = {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}
    write(shard, {"a": entry, "empty": entry | {"data_offsets": [2, 2], "shape": [0]}}, b"\0\0")
    assert [entry.dtype for entry in read_shard(shard).entries] == ["F8_E4M3"] * 2


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_cut_anywhere_the_file_is_named(shard, data):
    whole = shard.read_bytes()
    cut = shard.with_name("cut.safetensors")
    cut.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(CheckpointError, match=r"cut\.safetensors is cut short or damaged"):
        read_shard(cut)


def test_trailing_bytes_are_named(shard):
    shard.write_bytes(shard.read_bytes() + b"\0")
    with pytest.raises(CheckpointError, match="lists 58 bytes of tensors but 59 are there"):
        read_shard(shard)


@pytest.mark.parametrize(
    "header",
    [
        [],
        3,
        {"a": 3},
        {"a": {}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}},
        {"a": {"dtype": "F32", "shape": 2, "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [float("inf")], "data_offsets": [0, 8]}},
        {"a": {"dtype": 7, "shape": [2], "data_offsets": [0, 8]}},
    ],
)
def test_a_header_that_is_none_is_named(shard, header):
    write(shard, header, b"\0" * 8)
    with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged: its header is not"):
        read_shard(shard)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=64))
def test_arbitrary_bytes_are_never_a_traceback(tmp_path, raw):
    path = tmp_path / "noise.safetensors"
    path.write_bytes(len(raw).to_bytes(8, "little") + raw)
    try:
        assert read_shard(path).entries == ()
    except CheckpointError as error:
        assert "noise.safetensors" in str(error)  # noqa: PT017


def test_a_pointer_of_git_lfs_is_recognised(shard):
    shard.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(CheckpointError, match=r"Git LFS pointer.*git lfs pull"):
        read_shard(shard)


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    (tmp_path / "x.safetensors").mkdir()
    with pytest.raises(CheckpointError, match=r"x\.safetensors cannot be read"):
        read_shard(tmp_path / "x.safetensors")
