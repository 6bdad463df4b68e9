from __future__ import annotations

import json

import pytest
from checkpoint_files import fixture

from builders import drafter_config, target_config
from hybridspec.checkpoint import check_pair, read_drafter_config, read_target_config
from hybridspec.checkpoint.header import Entry, Shard
from hybridspec.checkpoint.pair import check_features
from hybridspec.errors import CheckpointError

TARGET = target_config()
REAL = [
    ("qwen3.6-35b-a3b", "dflash-35b", True),
    ("qwen3.6-35b-a3b", "dflash-35b-old", True),
    ("qwen3.5-122b-a10b", "dflash-122b", True),
    ("qwen3.5-122b-a10b", "dflash-35b", False),
    ("qwen3.6-35b-a3b", "dflash-122b", False),
]


@pytest.mark.parametrize(("target", "drafter", "fits"), REAL)
def test_the_real_pairs(tmp_path, target, drafter, fits):
    for name in (target, drafter):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(fixture(name)["config"]))
    pair = read_target_config(tmp_path / target), read_drafter_config(tmp_path / drafter)
    if fits:
        check_pair(*pair)
    else:
        with pytest.raises(CheckpointError, match="does not fit the target") as raised:
            check_pair(*pair)
        for word in ("hidden_size", "num_target_layers", "2048", "3072", "40", "48"):
            assert word in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 128}, ("hidden_size is 128", "hidden_size is 64")),
        ({"vocab_size": 96}, ("vocab_size is 96", "vocab_size is 97")),
        ({"num_target_layers": 12}, ("num_target_layers is 12", "num_hidden_layers is 8")),
        ({"target_layer_ids": (1, 8)}, ("[1, 8]", "last layer is 7")),
        ({"target_layer_ids": (3, 1)}, ("[3, 1]", "target's order")),
        ({"target_layer_ids": (1, 1)}, ("[1, 1]", "each once")),
        ({"mask_token_id": 97}, ("mask_token_id is 97", "ends at 96")),
        ({"block_size": 1}, ("block_size is 1", "2 to 16")),
        ({"block_size": 17}, ("block_size is 17", "2 to 16")),
    ],
)
def test_a_pair_that_does_not_fit_names_both_sides(changes, words):
    with pytest.raises(CheckpointError) as raised:
        check_pair(TARGET, drafter_config(TARGET, **changes))
    for word in words:
        assert word in str(raised.value)


def test_the_edges_of_what_fits():
    drafter = drafter_config(TARGET, target_layer_ids=(0, 7), mask_token_id=96, block_size=2)
    check_pair(TARGET, drafter)


@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize("shape", [(64, 5 * 64), (64,), ()])
def test_a_projection_for_other_taps_is_named(tmp_path, prefix, shape):
    config = drafter_config(TARGET)
    shard = Shard(tmp_path / "m.safetensors", (Entry(f"{prefix}fc.weight", "BF16", shape, 0),))
    with pytest.raises(CheckpointError, match="taps 3 layers of hidden size 64; expected 192"):
        check_features(config, [shard])


def test_the_projection_for_these_taps_passes(tmp_path):
    entry = Entry("fc.weight", "BF16", (64, 3 * 64), 0)
    check_features(drafter_config(TARGET), [Shard(tmp_path / "m.safetensors", (entry,))])
