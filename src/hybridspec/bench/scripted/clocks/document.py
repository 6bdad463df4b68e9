"""What a run has found, written after every part and read again by one that goes on."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hybridspec.bench.files import CLOCKS_SCHEMA, made, write_atomically
from hybridspec.bench.machine import SAME, check_same, circumstances, code, machine
from hybridspec.bench.scripted.clocks.board import Board
from hybridspec.bench.small import shape_is
from hybridspec.errors import RequestError, said_by


@dataclass
class Document:
    """parts: what was found of each, by name. failed: why, likewise. left_out: for want of time."""

    board: Board
    path: Path | None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Asked now: a part may leave the GPU in a state in which it answers no more.
        plan = self.board.plan
        self.about = {
            "schema": CLOCKS_SCHEMA, **shape_is(plan.small),
            "machine": machine(self.board.device), "run": circumstances(),
            "shape": json.loads(json.dumps(asdict(plan.shape.target))), "context": plan.context,
        }  # fmt: skip
        self.source = code()["source_sha256"]

    def resume(self) -> None:
        """Take over what the file holds, if there is one.

        Raises:
            RequestError: it cannot be read, or is of another machine, shape or context.
        """
        if self.path is None or not self.path.exists():
            return
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            before = self._identity(found)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestError(
                f"{self.path} is no document of the clocks ({said_by(error)}); choose another file "
                "with --out, or leave --resume away to write over it."
            ) from None
        check_same(self.path, before, self._identity(self.about))
        self.parts = found["parts"]

    def keep(self, name: str, found: dict[str, Any], seconds: float) -> None:
        """A part is done."""
        self.failed.pop(name, None)
        self.parts[name] = {"seconds": round(seconds, 1), "source_sha256": self.source} | found
        self.write()

    def fail(self, name: str, error: Exception) -> str:
        """A part failed; the sentence that says so."""
        self.failed[name] = "".join(traceback.format_exception(error))
        self.write()
        return f"{name} failed: {type(error).__name__}: {said_by(error)}."

    def write(self) -> None:
        """The file, whole or not at all."""
        if self.path is not None:
            body = self.about | {
                "took": self.board.took, "parts": self.parts, "failed": self.failed,
                "left_out": self.left_out,
            }  # fmt: skip
            made(self.path.parent)
            write_atomically(self.path, json.dumps(body, indent=1) + "\n")

    def _identity(self, found: dict[str, Any]) -> dict[str, Any]:
        """What must not differ."""
        same = {name: found[name] for name in ("schema", "shape", "context")}
        return same | {name: found["machine"].get(name) for name in SAME}
