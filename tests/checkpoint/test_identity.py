from __future__ import annotations

import shutil

import pytest
import torch
from checkpoint_files import rewrite, tensors_of, tiny_target
from safetensors.torch import save_file

from hybridspec.checkpoint import fingerprint, hub_revision
from hybridspec.checkpoint import identity as identity_module
from hybridspec.errors import CheckpointError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def folder(tmp_path):
    tiny_target(tmp_path / "one")
    return tmp_path / "one"


def test_equal_files_have_equal_fingerprints(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "two")
    assert fingerprint(folder) == fingerprint(tmp_path / "two")
    assert len(fingerprint(folder)) == 64


def test_one_changed_bit_changes_it(folder):
    before = fingerprint(folder)

    def flip(tensors):
        tensors["lm_head.weight"].view(torch.int32)[5, 5] ^= 1

    rewrite(folder, flip)
    assert fingerprint(folder) != before


def test_a_changed_config_changes_it(folder):
    before = fingerprint(folder)
    path = folder / "config.json"
    path.write_text(path.read_text().replace("10000000.0", "10000001.0"))
    assert fingerprint(folder) != before


def test_other_files_do_not_count(folder):
    before = fingerprint(folder)
    (folder / "README.md").write_text("news")
    assert fingerprint(folder) == before


def test_the_hubs_cache_gives_the_same_without_reading_the_weights(folder, tmp_path, monkeypatch):
    plain = fingerprint(folder)
    snapshot, blobs = tmp_path / "snapshots" / COMMIT, tmp_path / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    weights = folder / "model.safetensors"
    blob = blobs / identity_module._file_sha256(weights)
    shutil.copy(weights, blob)
    (snapshot / "model.safetensors").symlink_to(blob)
    shutil.copy(folder / "config.json", snapshot)
    read = []
    hashed = identity_module._hash
    monkeypatch.setattr(
        identity_module, "_hash", lambda p, *a: read.append(p.name) or hashed(p, *a)
    )
    assert fingerprint(snapshot) == plain
    assert read == ["config.json"]
    assert hub_revision(snapshot) == COMMIT


def test_other_folders_have_no_revision(folder):
    assert hub_revision(folder) is None


def test_damaged_weights_have_no_fingerprint(folder):
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"model\.safetensors is cut short"):
        fingerprint(folder)


def test_a_missing_config_is_named(folder):
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        fingerprint(folder)


def test_resharding_is_another_identity(folder, tmp_path):
    """The same weights in other files are other bytes: the fingerprint says what was loaded."""
    shutil.copytree(folder, tmp_path / "two")
    (tmp_path / "two" / "model.safetensors").unlink()
    tensors = tensors_of(folder)
    head = {"lm_head.weight": tensors.pop("lm_head.weight")}
    save_file(head, tmp_path / "two" / "a.safetensors")
    save_file(tensors, tmp_path / "two" / "b.safetensors")
    assert fingerprint(folder) != fingerprint(tmp_path / "two")
