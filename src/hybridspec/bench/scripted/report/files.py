"""Documents of scripted runs from files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hybridspec.bench.scripted.verb import NAME, SCHEMA
from hybridspec.errors import RequestError

BEGIN, END = f"<!-- {NAME}: begin -->", f"<!-- {NAME}: end -->"
KERNELS, CLOCKS, MEMORY = "kernels.json", "clocks.json", "memory.json"
SAME = ("shape", "context")  # of all runs of a report
ALIKE = ("pair", "routing")  # of those that are compared system by system
Document = dict[str, Any]


class Measured(NamedTuple):
    """runs: documents of scripted runs, the main one first, all of its acceptance and routing.
    kernels, clocks: of the kernels' bench and of the clocks of rounds. memory: a ledger, for runs
    that have none. others: runs of another acceptance or routing."""

    runs: Sequence[Document]
    kernels: Document | None = None
    clocks: Document | None = None
    memory: Document | None = None
    others: Sequence[Document] = ()


def read(paths: Sequence[Path]) -> Measured:
    """Documents, with what other benches left in the same folder, if one is given.

    Raises:
        RequestError: a file that is not of a scripted run or cannot be compared, or a folder
            without one.
    """
    files = [file for path in paths for file in (_listed(path) if path.is_dir() else [path])]
    documents = [_document(file) for file in files]
    for file, other in zip(files, documents, strict=True):
        for name in SAME:
            if other[name] != documents[0][name]:
                raise RequestError(
                    f"{file} cannot stand beside {files[0]}: they have another {name}. Report them "
                    "each for itself."
                )
        if _device(other) != _device(documents[0]):
            raise RequestError(
                f"{file} cannot stand beside {files[0]}: it is of {_device(other)}, that of "
                f"{_device(documents[0])}. Report them each for itself."
            )
    alike: list[Document] = []
    others: list[Document] = []
    for document in documents:
        same = all(document[name] == documents[0][name] for name in ALIKE)
        (alike if same else others).append(document)
    kernels, clocks, memory = (_beside(paths, name) for name in (KERNELS, CLOCKS, MEMORY))
    return Measured(alike, kernels, clocks, memory, others)


def _device(document: Document) -> str:
    """What a run's speed depends on most."""
    facts = document["machine"]
    return str(facts.get("gpu") or facts.get("cpu"))


def _beside(folders: Sequence[Path], name: str) -> Document | None:
    """The first document of that name."""
    found = [folder / name for folder in folders if (folder / name).is_file()]
    return _json(found[0]) if found else None


def _listed(folder: Path) -> list[Path]:
    """Its documents."""
    name = Path(NAME)
    if not (folder / name).is_file():
        raise RequestError(f"{folder} holds no {NAME}; `bench scripted --out {folder}` makes it.")
    return [folder / name, *sorted(folder.glob(f"{name.stem}-*{name.suffix}"))]


def _document(path: Path) -> Document:
    found = _json(path)
    if found.get("schema") != SCHEMA:
        raise RequestError(
            f"{path} is not of a scripted run: its schema is {str(found.get('schema'))[:80]!r}; "
            f"expected {SCHEMA!r}."
        )
    if missing := [name for name in (*SAME, *ALIKE, "machine") if name not in found]:
        raise RequestError(f"{path} lacks {', '.join(missing)}. Run the bench anew.")
    return found


def _json(path: Path) -> Document:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise RequestError(f"{path} cannot be read: it holds no JSON.") from None
    if not isinstance(found, dict):
        raise RequestError(f"{path} cannot be read: it holds no JSON object.")
    return found
