"""One safetensors file, read no further than its header.

The file is eight bytes of header length (little endian), a JSON header that gives each tensor's
dtype, shape and byte range, and the bytes. The header is read here and not through the library so
that each kind of damage gets its own sentence.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch

from hybridspec.errors import CheckpointError

DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
}
MAX_HEADER = 100_000_000  # the format's own limit


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor as its header describes it. `dtype` is the header's own word for it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One file and the tensors its header lists, in the order of the header."""

    path: Path
    entries: tuple[Entry, ...]


def read_shard(path: Path) -> Shard:
    """Reads one file's header and checks it against the size of the file.

    Raises:
        CheckpointError: the file cannot be read, is cut short, or its header is not one.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = int.from_bytes(start, "little")
            if start == b"version " and size < 1024:
                raise _damaged(path, "is a Git LFS pointer, not the weights; run `git lfs pull`")
            if length > min(size - 8, MAX_HEADER):
                raise _damaged(path, f"is cut short or damaged within its header ({size} bytes)")
            header = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from None
    entries, held = _parse(path, header), size - 8 - length
    promised = sum(entry.nbytes for entry in entries)
    if promised != held:
        listed = f"its header lists {promised} bytes of tensors but {held} are there"
        raise _damaged(path, f"is cut short or damaged: {listed}")
    return Shard(path, entries)


def _damaged(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"{path} {what}. Download the file again.")


def _parse(path: Path, header: bytes) -> tuple[Entry, ...]:
    try:
        data = json.loads(header)
        data.pop("__metadata__", None)
        return tuple(_entry(name, fields) for name, fields in data.items())
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError):
        raise _damaged(path, "is damaged: its header is not a safetensors header") from None


def _entry(name: str, fields: dict[str, object]) -> Entry:
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not (isinstance(dtype, str) and isinstance(shape, list) and isinstance(offsets, list)):
        raise TypeError
    begin, end = map(int, offsets)
    sizes = tuple(map(int, shape))
    known = DTYPES.get(dtype)
    if known is not None and math.prod(sizes) * known.itemsize != end - begin:
        raise ValueError
    return Entry(name, dtype, sizes, end - begin)
