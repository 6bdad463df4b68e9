"""What a run of the bench has done, as its document holds it: written after every part, and read
again by a run that goes on."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import triton

from hybridspec.bench.files import DAMAGE, made, write_atomically
from hybridspec.bench.machine import SAME, check_same, circumstances, code, machine
from hybridspec.bench.small import shape_is
from hybridspec.errors import RequestError, said_by
from hybridspec.kernels.bench.figures import figures
from hybridspec.kernels.bench.setting import SHAPES, Setting

SCHEMA = "hybridspec.bench.kernels/2"


@dataclass
class Progress:
    """parts: what was done of each, by name. failed: why, likewise; `tried` are those of this run.
    left_out: for want of time."""

    setting: Setting
    path: Path | None
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: dict[str, dict[str, str]] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Asked now: a part may leave the GPU in a state in which it answers no more.
        self.about = {"machine": machine(self.setting.device), "code": code()}
        self.run = circumstances()

    def resume(self) -> None:
        """Take over what the document at `path` holds, if there is one.

        Raises:
            RequestError: it cannot be read, or is of another machine or shape.
        """
        if self.path is None or not self.path.exists():
            return
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            before = _identity(found)
            parts, failed, records = found["parts"], dict(found["failed"]), found["records"]
            _ = [part["source_sha256"] for part in parts.values()]  # as they are read later
            _ = [record["name"] for record in records]
        except (OSError, *DAMAGE) as error:
            raise RequestError(
                f"{self.path} is no document of this bench ({said_by(error)}); choose another file "
                "with --out, or leave --resume away to write over it."
            ) from None
        check_same(self.path, before, _identity(self.document()))
        self.parts, self.failed = parts, failed
        self.setting.records[:] = records

    def others(self) -> list[str]:
        """Parts that another version of the source measured."""
        here = self.about["code"]["source_sha256"]
        return [name for name, part in self.parts.items() if part["source_sha256"] != here]

    def swept(self, name: str) -> int:
        """How often a part was run whole."""
        return int(self.parts.get(name, {}).get("sweeps", 0))

    def begin(self, name: str) -> None:
        """Before a part: in its first sweep nothing is left of an earlier try, in a second its
        times stand beside the first ones."""
        s = self.setting
        s.part = name
        self.failed.pop(name, None)
        if not self.swept(name):
            s.records[:] = [r for r in s.records if r.get("part") != name]
        own = [r for r in s.records if r.get("part") == name]
        s.first = {(r["name"], r.get("config", "")): r for r in own}

    def end(self, name: str, seconds: float) -> None:
        """A part is done."""
        self.parts[name] = {
            "sweeps": self.swept(name) + 1, "seconds": round(seconds, 1),
            "commit": self.run["commit"], "date": self.run["date"],
            "source_sha256": self.about["code"]["source_sha256"],
        }  # fmt: skip

    def fail(self, name: str, error: Exception) -> str:
        """A part failed; the sentence that says so."""
        self.tried.append(name)
        said = f"{name} failed: {type(error).__name__}: {said_by(error)}."
        self.failed[name] = {"error": said, "traceback": "".join(traceback.format_exception(error))}
        return said

    def bad(self) -> list[str]:
        """Checks that do not hold."""
        return [r["name"] for r in self.setting.records if r.get("ok") is False]

    def checked(self) -> bool:
        """Whether any check ran."""
        return any("ok" in r for r in self.setting.records)

    def document(self) -> dict[str, Any]:
        """What was found and on what."""
        s = self.setting
        return {
            "schema": SCHEMA,
            **shape_is(s.shape != SHAPES["35b"]),
            **self.about,
            "run": self.run,
            "triton": triton.__version__,
            "dtype": str(s.dtype).removeprefix("torch."),
            "shape": json.loads(json.dumps(asdict(s.shape))),  # tuples as JSON has them
            "copy_tb_s": round(s.copied / 1e12, 3) if s.copied else None,
            "parts": self.parts,
            "failed": self.failed,
            "left_out": self.left_out,
            "figures": figures(s.records),
            "records": s.records,
        }

    def write(self) -> None:
        """The document, whole or not at all."""
        if self.path is not None:
            made(self.path.parent)
            write_atomically(self.path, json.dumps(self.document(), indent=1) + "\n")


def _identity(found: dict[str, Any]) -> dict[str, Any]:
    """What must not differ between runs whose figures stand together."""
    own = {"schema": found["schema"], "shape": found.get("shape"), "dtype": found.get("dtype")}
    return own | {name: found["machine"].get(name) for name in SAME}
