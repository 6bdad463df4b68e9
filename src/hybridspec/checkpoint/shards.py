"""The files that hold a checkpoint's tensors: a single one, those of an index, or all there are."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from hybridspec.checkpoint.header import Shard, read_shard
from hybridspec.checkpoint.wording import first_few
from hybridspec.errors import CheckpointError
from hybridspec.jsonfile import read_json

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_NUMBERED = re.compile(r"(.*-)(\d+)-of-(\d+)\.safetensors")


def open_shards(folder: Path) -> tuple[Shard, ...]:
    """Reads the headers of a checkpoint's files.

    Raises:
        CheckpointError: no weights, a missing or damaged file, an index that does not agree with
            the files, or a tensor that two files hold.
    """
    index = folder / INDEX
    if (folder / SINGLE).is_file():
        names = [SINGLE]
    elif index.is_file():
        names = _indexed_files(index)
    else:
        names = _all_files(folder)
    shards = tuple(read_shard(folder / name) for name in names)
    if index.is_file() and names != [SINGLE]:
        _check_index(index, shards)
    _check_unique(shards)
    return shards


def _indexed_files(index: Path) -> list[str]:
    """The files an index names, which must all be there."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index} has no weight_map; expected a map from tensor to file.")
    names = sorted({str(name) for name in weight_map.values()})
    outside = [name for name in names if Path(name).name != name]
    if outside:
        raise CheckpointError(f"{index} names {outside[0]!r}; expected a file in its own folder.")
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise _missing_files(index.parent, len(names), missing)
    return names


def _all_files(folder: Path) -> list[str]:
    """All *.safetensors of a folder without an index; numbered ones must be complete."""
    names = sorted(path.name for path in folder.glob("*.safetensors"))
    if not names:
        raise CheckpointError(
            f"{folder} holds no *.safetensors file; expected safetensors weights (other formats, "
            "such as pytorch_model.bin or GGUF, are not read)."
        )
    numbered = [match for name in names if (match := _NUMBERED.fullmatch(name))]
    expected = {
        f"{stem}{i:0{len(digits)}d}-of-{total}.safetensors"
        for stem, digits, total in (match.groups() for match in numbered)
        for i in range(1, int(total) + 1)
    }
    if missing := sorted(expected - set(names)):
        raise _missing_files(folder, len(expected), missing)
    return names


def _missing_files(folder: Path, total: int, missing: list[str]) -> CheckpointError:
    return CheckpointError(
        f"{folder} lacks {len(missing)} of its {total} weight files: {first_few(missing)}. "
        "Download the checkpoint again."
    )


def _check_index(index: Path, shards: tuple[Shard, ...]) -> None:
    """Every tensor the index names must be in the file it names."""
    held = {(shard.path.name, entry.name) for shard in shards for entry in shard.entries}
    weight_map = read_json(index)["weight_map"]
    assert isinstance(weight_map, dict)
    absent = [name for name, file in weight_map.items() if (file, name) not in held]
    if absent:
        file = index.parent / weight_map[absent[0]]
        raise CheckpointError(
            f"{index} names {len(absent)} tensors that are not in their files: {first_few(absent)} "
            f"(expected in {file}). Download the checkpoint again."
        )


def _check_unique(shards: tuple[Shard, ...]) -> None:
    counts = Counter(entry.name for shard in shards for entry in shard.entries)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        files = [shard.path for shard in shards if twice[0] in {e.name for e in shard.entries}]
        raise CheckpointError(
            f"{len(twice)} tensors are in more than one file: {first_few(twice)} "
            f"(in {', '.join(map(str, files))}). Expected each once: remove the files that do not "
            "belong."
        )
