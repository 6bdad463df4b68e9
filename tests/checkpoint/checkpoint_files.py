"""Checkpoints on disk for tests: small real ones, sparse ones of the real shapes, damaged ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.checkpoint.header import DTYPES
from hybridspec.checkpoint.writer import save_drafter, save_target

FIXTURES = Path(__file__).parents[1] / "fixtures" / "tensors"
TINY_LAYERS = ("linear_attention", "full_attention")


def tiny_target(folder: Path, **changes):
    """Saves a random two-layer target and returns it."""
    sizes = {"hidden_size": 16, "layer_types": TINY_LAYERS, "num_experts": 4} | changes
    target = random_target(target_config(**sizes), context=0)
    save_target(folder, target)
    return target


def tiny_drafter(folder: Path, target, **changes):
    """Saves a random two-layer drafter for `target` and returns it."""
    kinds = ("sliding_attention", "full_attention")
    sizes = {"layer_types": kinds, "target_layer_ids": (0, 1)} | changes
    drafter = random_drafter(drafter_config(target.config, **sizes), context=0)
    save_drafter(folder, drafter)
    return drafter


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            found |= {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    return found


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Changes the tensors of a single-file checkpoint."""
    tensors = tensors_of(folder)
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def edit_json(path: Path, change: Callable[[dict], None]) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def fixture(name: str) -> dict:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def expand(rows: list) -> Iterator[tuple[str, list[int], str]]:
    """(name, shape, dtype) of each tensor; `{}` stands for the layers of a list like 0-2,4-6."""
    for pattern, layers, shape, dtype in rows:
        for part in layers.split(",") if layers else ["0"]:
            first, _, last = part.partition("-")
            for layer in range(int(first), int(last or first) + 1):
                yield pattern.replace("{}", str(layer)), shape, dtype


def sparse_shard(path: Path, entries: list[tuple[str, list[int], str]]) -> None:
    """A valid file whose tensors are zeros that take no disk."""
    header, end = {}, 0
    for name, shape, dtype in entries:
        begin, end = end, end + math.prod(shape) * DTYPES[dtype].itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + end)


def sparse_checkpoint(
    folder: Path, config: dict, entries: list[tuple[str, list[int], str]], shard_bytes: int
) -> int:
    """A sharded, indexed checkpoint of zeros; returns the size of its largest file."""
    groups, size = [[]], 0
    for entry in entries:
        nbytes = math.prod(entry[1]) * DTYPES[entry[2]].itemsize
        if groups[-1] and size + nbytes > shard_bytes:
            groups.append([])
            size = 0
        groups[-1].append(entry)
        size += nbytes
    weight_map = {}
    for i, group in enumerate(groups, 1):
        file = f"model-{i:05d}-of-{len(groups):05d}.safetensors"
        sparse_shard(folder / file, group)
        weight_map |= {name: file for name, _, _ in group}
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps(config))
    return max(path.stat().st_size for path in folder.glob("*.safetensors"))
