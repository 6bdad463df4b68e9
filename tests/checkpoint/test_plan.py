"""The real names and shapes against the model's slots, and every way in which they may not fit."""

from __future__ import annotations

import pytest
import torch
from checkpoint_files import TINY_LAYERS

from builders import drafter_config, target_config
from hybridspec.checkpoint.header import Entry, Shard
from hybridspec.checkpoint.names import Place, place_drafter, place_target
from hybridspec.checkpoint.plan import make_plan
from hybridspec.errors import CheckpointError
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

META = torch.device("meta")


def entries(slots, prefix="model.language_model.") -> dict[str, Entry]:
    """The tensors that fill slots, by the name of the slot."""
    return {
        name: Entry(name if name == "lm_head.weight" else prefix + name, "BF16", tuple(s.shape), 0)
        for name, s in slots.items()
    }


@pytest.fixture
def slots():
    return Target(target_config(layer_types=TINY_LAYERS), META).slots()


def plan(slots, listed, tmp_path, placer=place_target):
    return make_plan([Shard(tmp_path / "m.safetensors", tuple(listed))], slots, placer, tmp_path)


def by_expert(slots) -> list[Entry]:
    """The same tensors with experts one by one."""
    listed = entries(slots)
    split = [e for name, e in listed.items() if ".mlp.experts." not in name]
    for layer in (0, 1):
        stem = f"layers.{layer}.mlp.experts"
        experts, rows, hidden = listed[f"{stem}.gate_up_proj"].shape
        inner = rows // 2
        shapes = {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
        split += [
            Entry(f"model.{stem}.{i}.{name}_proj.weight", "BF16", shape, 0)
            for i in range(experts)
            for name, shape in shapes.items()
        ]
    return split


def test_all_slots_are_filled_once(slots, tmp_path):
    moves = plan(slots, entries(slots).values(), tmp_path).moves
    assert sorted(move.place.slot for move in moves) == sorted(slots)


def test_experts_may_come_one_by_one(slots, tmp_path):
    moves = plan(slots, by_expert(slots), tmp_path).moves
    places = {move.place for move in moves if move.place.expert is not None}
    assert len(places) == 2 * 8 * 3
    assert {move.place.slot for move in moves} == set(slots)


@pytest.mark.parametrize("drop", ["3.gate", "0.up", "7.down"])
def test_a_missing_expert_is_named(slots, tmp_path, drop):
    listed = [e for e in by_expert(slots) if f"layers.1.mlp.experts.{drop}_" not in e.name]
    missing = rf"1 tensors are missing \(layers\.1\.mlp\.experts\.{drop}_proj\.weight\)"
    with pytest.raises(CheckpointError, match=missing):
        plan(slots, listed, tmp_path)


def test_an_expert_too_many_is_named(slots, tmp_path):
    extra = Entry("model.layers.0.mlp.experts.8.down_proj.weight", "BF16", (64, 24), 0)
    with pytest.raises(CheckpointError, match=r"1 tensors have no place.*experts\.8\.down_proj"):
        plan(slots, [*by_expert(slots), extra], tmp_path)


def test_an_expert_beside_its_stack_is_named(slots, tmp_path):
    extra = Entry("model.layers.0.mlp.experts.1.down_proj.weight", "BF16", (64, 24), 0)
    with pytest.raises(CheckpointError, match=r"1 tensors have no place.*experts\.1\.down_proj"):
        plan(slots, [*entries(slots).values(), extra], tmp_path)


def test_every_single_missing_tensor_is_named(slots, tmp_path):
    listed = entries(slots)
    for name in slots:
        rest = [entry for other, entry in listed.items() if other != name]
        with pytest.raises(CheckpointError) as raised:
            plan(slots, rest, tmp_path)
        assert f"1 tensors are missing ({name})" in str(raised.value)


def test_every_single_wrong_shape_is_named(slots, tmp_path):
    listed = entries(slots)
    for name, entry in listed.items():
        wrong = Entry(entry.name, entry.dtype, (*entry.shape[:-1], entry.shape[-1] + 1), 0)
        with pytest.raises(CheckpointError) as raised:
            plan(slots, (listed | {name: wrong}).values(), tmp_path)
        said = str(raised.value)
        assert f"{entry.name} has shape {list(wrong.shape)}" in said
        assert f"expected {list(entry.shape)}" in said


def test_many_missing_tensors_are_counted(slots, tmp_path):
    with pytest.raises(CheckpointError, match=r"tensors are missing \(.*, .*, .* and \d+ more\)"):
        plan(slots, [], tmp_path)


def test_an_unknown_tensor_is_named(slots, tmp_path):
    extra = Entry("model.layers.0.mlp.gate.bias", "BF16", (8,), 0)
    with pytest.raises(CheckpointError, match=r"no place in the model \(model\.layers\.0\.mlp"):
        plan(slots, [*entries(slots).values(), extra], tmp_path)


def test_two_names_for_one_place_are_named(slots, tmp_path):
    twin = Entry("model.norm.weight", "BF16", (64,), 0)
    both = r"language_model\.norm\.weight and model\.norm\.weight both fill norm\.weight"
    with pytest.raises(CheckpointError, match=both):
        plan(slots, [*entries(slots).values(), twin], tmp_path)


@pytest.mark.parametrize("dtype", ["I32", "F8_E4M3", "U8", "F4"])
def test_an_unsupported_dtype_is_named(slots, tmp_path, dtype):
    listed = entries(slots)
    listed["norm.weight"] = Entry("model.norm.weight", dtype, (64,), 0)
    with pytest.raises(CheckpointError, match=rf"model\.norm\.weight has dtype {dtype}"):
        plan(slots, listed.values(), tmp_path)


def test_skipped_parts_may_have_any_dtype_and_shape(slots, tmp_path):
    skipped = [Entry("mtp.fc.weight", "I32", (1,), 0), Entry("model.visual.x", "F8_E4M3", (), 0)]
    moves = plan(slots, [*entries(slots).values(), *skipped], tmp_path).moves
    assert len(moves) == len(slots)


def test_a_tied_head_may_be_absent_or_spare(tmp_path):
    slots = Target(target_config(layer_types=TINY_LAYERS, tie_word_embeddings=True), META).slots()
    listed = list(entries(slots).values())
    assert plan(slots, listed, tmp_path).spare_head is None
    head = Entry("lm_head.weight", "BF16", (97, 64), 0)
    spare = plan(slots, [*listed, head], tmp_path)
    assert spare.spare_head.place == Place("lm_head.weight")
    assert len(spare.moves) == len(slots)
    wrong = Entry("lm_head.weight", "BF16", (96, 64), 0)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight has shape \[96, 64\]"):
        plan(slots, [*listed, wrong], tmp_path)


def test_an_untied_head_must_be_there(slots, tmp_path):
    listed = [entry for name, entry in entries(slots).items() if name != "lm_head.weight"]
    with pytest.raises(CheckpointError, match=r"missing \(lm_head\.weight\)"):
        plan(slots, listed, tmp_path)


@pytest.mark.parametrize("name", ["embed_tokens.weight", "lm_head.weight", "mtp.fc.weight"])
def test_a_drafter_has_no_tensors_beside_its_own(tmp_path, name):
    slots = Drafter(drafter_config(target_config()), META).slots()
    listed = [*entries(slots, "").values(), Entry(name, "BF16", (97, 64), 0)]
    with pytest.raises(CheckpointError, match=f"no place in the model .{name}"):
        plan(slots, listed, tmp_path, place_drafter)
