"""Which checkpoint this is, byte for byte: a name on the Hub can change its contents in silence."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from hybridspec.checkpoint.shards import open_shards
from hybridspec.errors import CheckpointError

_HEX = set("0123456789abcdef")


def fingerprint(folder: Path) -> str:
    """SHA-256, in hex, over `config.json` and every weight file: names and bytes.

    A file in the Hub's cache is named by the SHA-256 of its bytes and is not read again; others are
    read once per process and state of the file.

    Raises:
        CheckpointError: no weights, or a file that is missing, damaged or cannot be read.
    """
    total = hashlib.sha256()
    for path in (folder / "config.json", *(shard.path for shard in open_shards(folder))):
        total.update(f"{path.name} {_file_sha256(path)}\n".encode())
    return total.hexdigest()


def hub_revision(folder: Path) -> str | None:
    """The commit a folder of the Hub's cache was downloaded at; None for other folders."""
    commit = folder.absolute().name
    is_snapshot = folder.absolute().parent.name == "snapshots"
    return commit if is_snapshot and len(commit) == 40 and set(commit) <= _HEX else None


def _file_sha256(path: Path) -> str:
    real = path.resolve()
    if real.parent.name == "blobs" and len(real.name) == 64 and set(real.name) <= _HEX:
        return real.name
    try:
        facts = real.stat()
        return _hash(real, facts.st_size, facts.st_mtime_ns)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from None


@lru_cache(maxsize=1024)
def _hash(path: Path, size: int, changed_ns: int) -> str:
    """Size and time of change are part of the key: a file that changed is read again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
