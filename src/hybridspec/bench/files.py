"""Files of a folder of results: whole or not at all, and of one bench at a time."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hybridspec.errors import RequestError

SCHEMA = "hybridspec.bench.speed/1"  # of the document in
RESULTS = "speed.json"
MARKDOWN = "speed.md"  # the tables of the report, to be pasted
COMPONENTS_SCHEMA = "hybridspec.bench.profile/1"  # of the document in
COMPONENTS = "components.json"
CLOCKS_SCHEMA = "hybridspec.bench.scripted.clocks/1"  # of the document in
CLOCKS = "clocks.json"
LOCK = "speed.lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)  # some network file systems

# What a document that is not quite ours raises: reading it, or looking for what it lacks.
DAMAGE = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, ArithmeticError,
)  # fmt: skip


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the whole new one.

    Raises:
        RequestError: the file cannot be written.
    """
    beside = path.with_name(path.name + ".tmp")
    try:
        # A lone surrogate, possible in a file's name, becomes the escape that JSON has for it.
        with beside.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise unwritable(path, error) from None


def made(folder: Path) -> Path:
    """The folder, made if it was not there.

    Raises:
        RequestError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from None
    return folder


def unwritable(path: Path, error: OSError) -> RequestError:
    """The sentence about a file of results that cannot be written."""
    return RequestError(
        f"{path} cannot be written: {error.strerror}. Choose another folder with --out."
    )


@contextmanager
def locked(out: Path) -> Iterator[None]:
    """Hold the folder `out`, made if need be, against other benches. The kernel lets go of it when
    this process ends, however it ends. A folder that was made and stayed empty is removed.

    Raises:
        RequestError: another bench holds it, or it cannot be written.
    """
    made = not out.exists()
    path = out / LOCK
    try:
        out.mkdir(parents=True, exist_ok=True)
        descriptor = _acquire(path)
    except OSError as error:
        raise unwritable(path, error) from None
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)
        if made:
            with suppress(OSError):
                out.rmdir()


def _acquire(path: Path) -> int:
    """The open and locked file. One that was removed between the two is no lock: again."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            _lock(descriptor, path)
            if _is_at(descriptor, path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        process = f" (process {holder})" if holder else ""
        raise RequestError(
            f"{path.parent} is in use by another bench{process}. Wait until that has ended, or "
            "choose another folder with --out."
        ) from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
