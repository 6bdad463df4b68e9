from __future__ import annotations

import json
import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from checkpoint_files import (
    edit_json,
    expand,
    fixture,
    rewrite,
    sparse_checkpoint,
    tensors_of,
    tiny_drafter,
    tiny_target,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from builders import hf_target, random_target, target_config
from hybridspec.checkpoint import load_drafter, load_target, read_target_config
from hybridspec.checkpoint import loader as loader_module
from hybridspec.checkpoint.loader import fill, load_into
from hybridspec.checkpoint.names import place_target
from hybridspec.checkpoint.plan import make_plan
from hybridspec.checkpoint.shards import open_shards
from hybridspec.errors import CheckpointError
from hybridspec.model.target import Target

GIB = 2**30
NAN = "holds NaN or infinite values"


def assert_same(one, other) -> None:
    """Equal slots, bit for bit: loading in the dtype of the file computes nothing."""
    ours, theirs = one.slots(), other.slots()
    assert ours.keys() == theirs.keys()
    for name, slot in ours.items():
        assert torch.equal(slot, theirs[name].to(slot)), name


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """(folder, target) of a small target in one file."""
    folder = tmp_path_factory.mktemp("target")
    return folder, tiny_target(folder)


@pytest.fixture
def copied(saved, tmp_path):
    """A copy of the small target, to be damaged."""
    return Path(shutil.copytree(saved[0], tmp_path / "copy"))


class TestRealShapes:
    """The published names, shapes and configurations, as sparse files of the real sizes."""

    @pytest.mark.parametrize("name", ["qwen3.6-35b-a3b", "qwen3.5-122b-a10b"])
    def test_target(self, tmp_path, name):
        real = fixture(name)
        entries = list(expand(real["tensors"]))
        random.Random(0).shuffle(entries)
        sparse_checkpoint(
            tmp_path, real["config"], entries + list(expand(real["skipped"])), 4 * GIB
        )
        target = load_target(tmp_path, "meta", torch.bfloat16)
        plan = make_plan(open_shards(tmp_path), target.slots(), place_target, tmp_path)
        assert {move.entry.name for move in plan.moves} == {entry[0] for entry in entries}
        assert {move.place.slot for move in plan.moves} == set(target.slots())
        assert len(plan.moves) == len(entries) == len(target.slots())

    @pytest.mark.parametrize(
        ("name", "target"),
        [
            ("dflash-35b", "qwen3.6-35b-a3b"),
            ("dflash-35b-old", "qwen3.6-35b-a3b"),
            ("dflash-122b", "qwen3.5-122b-a10b"),
        ],
    )
    def test_drafter(self, tmp_path, name, target):
        real = fixture(name)
        entries = list(expand(real["tensors"]))
        sparse_checkpoint(tmp_path, real["config"], entries, 4 * GIB)
        (tmp_path / "target").mkdir()
        (tmp_path / "target" / "config.json").write_text(json.dumps(fixture(target)["config"]))
        config = read_target_config(tmp_path / "target")
        drafter = load_drafter(tmp_path, config, "meta", torch.bfloat16)
        assert set(drafter.slots()) == {entry[0] for entry in entries}


class TestWeights:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_load_what_was_saved(self, saved, dtype):
        folder, target = saved
        loaded = load_target(folder, "cpu", dtype)
        for name, slot in loaded.slots().items():
            assert torch.equal(slot, target.slots()[name].to(slot.dtype)), name
        assert loaded.embedding.dtype == dtype

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    def test_files_of_every_dtype(self, copied, saved, dtype):
        def cast(tensors):
            for name, tensor in tensors.items():
                tensors[name] = tensor.to(dtype)

        rewrite(copied, cast)
        loaded = load_target(copied, "cpu", torch.float32)
        for name, slot in loaded.slots().items():
            assert torch.equal(slot, saved[1].slots()[name].to(dtype).float()), name

    @settings(max_examples=15, deadline=None)
    @given(data=st.data())
    def test_order_files_prefix_and_experts_do_not_matter(self, saved, tmp_path_factory, data):
        """Any sharding of any order loads the same, experts stacked or one by one."""
        folder, target = saved
        tensors = tensors_of(folder)
        if data.draw(st.booleans(), "experts one by one"):
            tensors = unstack(tensors)
        prefix = data.draw(st.sampled_from(["model.language_model.", "model.", ""]), "prefix")
        names = data.draw(st.permutations(sorted(tensors)), "order")
        cuts = data.draw(st.lists(st.integers(1, len(names) - 1), max_size=4, unique=True), "cuts")
        other = tmp_path_factory.mktemp("other")
        edges = [0, *sorted(cuts), len(names)]
        for i, (start, end) in enumerate(pairwise(edges)):
            part = {
                n.replace("model.language_model.", prefix): tensors[n] for n in names[start:end]
            }
            save_file(part, other / f"part{i}.safetensors")
        shutil.copy(folder / "config.json", other)
        assert_same(load_target(other, "cpu", torch.float32), target)

    def test_in_pieces_of_bounded_size(self, saved, monkeypatch):
        folder, target = saved
        monkeypatch.setattr(loader_module, "PIECE_BYTES", 500)
        plan = make_plan(open_shards(folder), target.slots(), place_target, folder)
        loaded, sizes = Target(target.config), []
        fill(loaded.slots(), plan, sizes.append)
        assert_same(loaded, target)
        rows = [move.entry.nbytes // move.entry.shape[0] for move in plan.moves]
        # The bound counts two bytes an element, the file has four; a row is never cut.
        assert max(sizes) <= max(2 * 500, *rows)

    def test_every_byte_is_counted_once(self, saved):
        folder, target = saved
        done = []
        plan = make_plan(open_shards(folder), target.slots(), place_target, folder)
        fill(Target(target.config).slots(), plan, done.append)
        assert sum(done) == plan.nbytes == sum(t.nbytes for t in tensors_of(folder).values())

    def test_drafter(self, saved, tmp_path):
        drafter = tiny_drafter(tmp_path, saved[1])
        assert_same(load_drafter(tmp_path, saved[1].config, "cpu", torch.float32), drafter)

    def test_drafter_names_may_have_a_prefix(self, saved, tmp_path):
        drafter = tiny_drafter(tmp_path, saved[1])
        save_file(
            {f"model.{name}": tensor for name, tensor in tensors_of(tmp_path).items()},
            tmp_path / "model.safetensors",
        )
        assert_same(load_drafter(tmp_path, saved[1].config, "cpu", torch.float32), drafter)

    @pytest.mark.parametrize("tied", [True, False])
    def test_what_transformers_saves(self, tmp_path, tied):
        """Text-only re-saves: flat config, names without `language_model.`."""
        target = random_target(target_config(tie_word_embeddings=tied), context=0)
        hf_target(target).save_pretrained(tmp_path)
        loaded = load_target(tmp_path, "cpu", torch.float32)
        assert_same(loaded, target)
        assert loaded.config == target.config
        assert (loaded.head is loaded.embedding) is tied

    def test_what_transformers_saves_with_a_vision_tower(self, tmp_path):
        """The published form: nested config, prefixed names, vision tensors to skip."""
        from transformers import Qwen3_5MoeConfig, Qwen3_5MoeForConditionalGeneration

        target = random_target(target_config(), context=0)
        text = hf_target(target).config.to_dict()
        vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2}
        vision |= {"out_hidden_size": 64, "num_position_embeddings": 4}
        config = Qwen3_5MoeConfig(text_config=text, vision_config=vision, tie_word_embeddings=False)
        model = Qwen3_5MoeForConditionalGeneration(config)
        named = {
            name if name == "lm_head.weight" else f"model.language_model.{name}": slot
            for name, slot in target.slots().items()
        }
        assert not model.load_state_dict(named, strict=False).unexpected_keys
        model.save_pretrained(tmp_path, max_shard_size="100KB")
        assert len(list(tmp_path.glob("*.safetensors"))) > 1
        assert any(name.startswith("model.visual.") for name in tensors_of(tmp_path))
        assert_same(load_target(tmp_path, "cpu", torch.float32), target)

    def test_the_model_is_prepared_once_when_all_is_loaded(self, saved):
        folder, target = saved
        prepared = []

        class Watched(Target):
            def prepare(self):
                assert_same(self, target)
                prepared.append(self)

        loaded = load_into(
            lambda device: Watched(target.config, device), folder, place_target, "cpu"
        )
        assert prepared == [loaded]


class TestTiedHead:
    @pytest.fixture
    def tied(self, tmp_path):
        target = tiny_target(tmp_path, tie_word_embeddings=True)
        return tmp_path, target

    def test_may_be_stored_beside_the_embedding(self, tied):
        folder, target = tied
        rewrite(folder, lambda t: t.update({"lm_head.weight": target.embedding.contiguous()}))
        assert_same(load_target(folder, "cpu", torch.float32), target)

    def test_must_be_the_embedding(self, tied):
        folder, target = tied
        other = target.embedding.clone(memory_format=torch.contiguous_format)
        other[-1, -1] += 1
        rewrite(folder, lambda t: t.update({"lm_head.weight": other}))
        with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from the embedding"):
            load_target(folder, "cpu", torch.float32)


class TestRefused:
    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize(
        "name", ["lm_head.weight", "layers.0.linear_attn.A_log", "layers.1.mlp.experts.down_proj"]
    )
    @pytest.mark.parametrize("end", [0, -1])
    def test_a_weight_that_is_no_number_is_named(self, copied, name, value, end):
        full = name if name == "lm_head.weight" else f"model.language_model.{name}"

        def spoil(tensors):
            tensors[full].view(-1)[end] = value

        rewrite(copied, spoil)
        with pytest.raises(CheckpointError, match=f"{full} {NAN}"):
            load_target(copied, "cpu", torch.float32)

    def test_a_weight_beyond_the_compute_dtype_is_named(self, copied):
        rewrite(copied, lambda tensors: tensors["lm_head.weight"].view(-1)[3:4].fill_(1e5))
        assert load_target(copied, "cpu", torch.float32).head.max() == 1e5
        beyond = r"lm_head\.weight holds F32 values beyond the range of torch\.float16"
        with pytest.raises(CheckpointError, match=beyond):
            load_target(copied, "cpu", torch.float16)

    @pytest.mark.parametrize("keep", [0, 7, 100, -1])
    def test_a_truncated_file_is_named(self, copied, keep):
        path = copied / "model.safetensors"
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(CheckpointError, match=r"model\.safetensors is cut short or damaged"):
            load_target(copied, "cpu", torch.float32)

    def test_ranges_that_overlap_are_named(self, copied):
        """Damage that sizes do not show is left to the library, whose error becomes ours."""
        path = copied / "model.safetensors"
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        norm = header["model.language_model.norm.weight"]
        other = header["model.language_model.layers.0.input_layernorm.weight"]
        other["data_offsets"] = norm["data_offsets"]
        changed = json.dumps(header).encode()
        path.write_bytes(len(changed).to_bytes(8, "little") + changed + raw[8 + length :])
        with pytest.raises(CheckpointError, match=r"model\.safetensors is damaged"):
            load_target(copied, "cpu", torch.float32)

    def test_a_missing_and_an_extra_tensor_are_named(self, copied):
        def swap(tensors):
            norm = tensors.pop("model.language_model.norm.weight")
            tensors["model.language_model.norm.bias"] = norm

        rewrite(copied, swap)
        with pytest.raises(CheckpointError) as raised:
            load_target(copied, "cpu", torch.float32)
        assert "1 tensors have no place in the model (model.language_model.norm.bias)" in str(
            raised.value
        )
        assert "1 tensors are missing (norm.weight)" in str(raised.value)

    def test_a_config_of_other_shapes_is_named(self, copied):
        edit_json(copied / "config.json", lambda data: data["text_config"].update(vocab_size=98))
        with pytest.raises(CheckpointError, match=r"shape \[97, 16\]; expected \[98, 16\]"):
            load_target(copied, "cpu", torch.float32)

    @pytest.mark.parametrize("source", ["/no/such/folder", "no such thing", ""])
    def test_a_missing_path_is_named(self, source):
        with pytest.raises(CheckpointError, match="There is no checkpoint at"):
            load_target(source, "cpu", torch.float32)

    def test_a_target_in_place_of_a_drafter_is_named(self, saved):
        with pytest.raises(CheckpointError, match="not supported as a drafter"):
            load_drafter(saved[0], saved[1].config, "cpu", torch.float32)

    def test_a_drafter_for_another_target_is_named(self, saved, tmp_path):
        tiny_drafter(tmp_path, saved[1])
        other = target_config(hidden_size=32, layer_types=saved[1].config.layer_types)
        with pytest.raises(CheckpointError, match=r"hidden_size is 16 and the target's .* is 32"):
            load_drafter(tmp_path, other, "cpu", torch.float32)

    def test_a_drafter_whose_projection_is_for_other_taps_is_named(self, saved, tmp_path):
        tiny_drafter(tmp_path, saved[1])
        change = {"target_layer_ids": [1]}
        edit_json(tmp_path / "config.json", lambda data: data["dflash_config"].update(change))
        with pytest.raises(CheckpointError, match=r"fc\.weight .*taps 1 layers of hidden size 16"):
            load_drafter(tmp_path, saved[1].config, "cpu", torch.float32)

    def test_nothing_is_allocated_for_a_checkpoint_that_does_not_fit(self, copied, saved):
        built = []

        def build(device):
            built.append(device.type)
            return Target(saved[1].config, device)

        rewrite(copied, lambda tensors: tensors.pop("lm_head.weight"))
        with pytest.raises(CheckpointError, match="missing"):
            load_into(build, copied, place_target, "cpu")
        assert built == ["meta"]

    @settings(max_examples=80, deadline=None)
    @given(data=st.data())
    def test_damage_anywhere_before_the_weights_is_never_a_traceback(
        self, saved, tmp_path_factory, data
    ):
        """One byte of a header or of config.json changes: it loads as it was, or is refused."""
        other = tmp_path_factory.mktemp("damaged")
        shutil.copytree(saved[0], other, dirs_exist_ok=True)
        path = other / data.draw(st.sampled_from(["model.safetensors", "config.json"]), "file")
        raw = bytearray(path.read_bytes())
        header = 8 + int.from_bytes(raw[:8], "little")
        end = header if path.suffix == ".safetensors" else len(raw)
        where = data.draw(st.integers(0, end - 1), "where")
        raw[where] = data.draw(st.sampled_from(b'0123456789,:"[]{}a \xff'), "byte")
        path.write_bytes(raw)
        try:
            loaded = load_target(other, "cpu", torch.float32)
        except CheckpointError as error:
            assert str(other) in str(error)  # noqa: PT017
        else:
            assert_same(loaded, saved[1])

    def test_too_little_memory_is_a_sentence(self, saved):
        def build(device):
            if device.type == "meta":
                return Target(saved[1].config, device)
            raise torch.OutOfMemoryError("CUDA out of memory")

        with pytest.raises(CheckpointError, match=r"take 0\.0 GB, more than is free on cpu"):
            load_into(build, saved[0], place_target, "cpu")

    def test_other_errors_while_building_are_not_hidden(self, saved):
        def build(device):
            if device.type == "meta":
                return Target(saved[1].config, device)
            raise RuntimeError("a bug")

        with pytest.raises(RuntimeError, match="a bug"):
            load_into(build, saved[0], place_target, "cpu")


def unstack(tensors: dict) -> dict:
    """Experts as one tensor each, as other exporters of the family write them."""
    single = {}
    for name, tensor in tensors.items():
        stem, _, last = name.rpartition(".")
        if not stem.endswith(".mlp.experts"):
            single[name] = tensor
            continue
        for expert, rows in enumerate(tensor):
            parts = {"down": rows}
            if last == "gate_up_proj":
                parts = dict(zip(("gate", "up"), rows.chunk(2), strict=True))
            for half, part in parts.items():
                single[f"{stem}.{expert}.{half}_proj.weight"] = part.clone()
    return single


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's own accounting")
def test_loading_holds_less_than_one_shard_of_anonymous_memory(tmp_path):
    """Sparse files of the 35B's real shapes, one layer and the embedding, cast to float32.

    The slots share one buffer the size of the largest, touched before the measurement: what is
    counted is what loading itself holds.
    """
    real = fixture("qwen3.6-35b-a3b")
    config = real["config"] | {"tie_word_embeddings": True}
    config["text_config"] |= {"layer_types": ["linear_attention"], "num_hidden_layers": 1}
    kept = [
        entry
        for entry in expand(real["tensors"])
        if entry[0] != "lm_head.weight" and (".layers." not in entry[0] or ".layers.0." in entry[0])
    ]
    largest_file = sparse_checkpoint(tmp_path, config, kept, 2 * GIB)

    plain = Target(read_target_config(tmp_path), "meta", torch.float32).slots()
    plan = make_plan(open_shards(tmp_path), plain, place_target, tmp_path)
    size = max(slot.nbytes for slot in plain.values())
    buffer = torch.full((size,), 1, dtype=torch.uint8)
    slots = {
        name: buffer[: slot.nbytes].view(slot.dtype).view(slot.shape)
        for name, slot in plain.items()
    }
    held, before = [], anonymous_bytes()
    fill(slots, plan, lambda _: held.append(anonymous_bytes() - before))
    assert plan.nbytes > 2.6e9
    assert len(held) > 40
    assert max(held) < largest_file
    # Beyond the bound that was promised: one piece and the allocator's slack.
    assert max(held) < 2 * loader_module.PIECE_BYTES
