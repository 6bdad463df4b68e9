"""What memory is for: buffers of each verifier, and how many tokens the rest can hold (D.4).

    python -m hybridspec.bench.scripted.ledger --out benchmarks/h200

Reckoned from the very classes that allocate, on the meta device: no byte is touched, so no GPU is
needed. Every scripted run has it in its document too.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from hybridspec.bench.command import ending
from hybridspec.bench.files import made, write_atomically
from hybridspec.bench.parsing import Parser
from hybridspec.bench.scripted.paper import POOL
from hybridspec.bench.scripted.report.files import MEMORY
from hybridspec.bench.scripted.shapes import SHAPES, Shape
from hybridspec.cli.output import write_json
from hybridspec.model.drafter import Drafter
from hybridspec.model.gdn import VERIFY
from hybridspec.model.target import Target
from hybridspec.runtime.state import DrafterState, TargetState, W

META = torch.device("meta")
MEMORIES = {"80 GiB": 80 * 2**30, "141 GB": 141 * 10**9}  # of a GPU, weights in it too
BESIDE = {"the paper's pool": POOL}  # beside weights


class Ledger:
    """Of one sequence of a shape. joint: with what the kernels need, see `TargetState`."""

    def __init__(self, shape: Shape, dtype: torch.dtype, *, joint: bool) -> None:
        self._shape, self._dtype, self._joint = shape, dtype, joint
        models = Target(shape.target, META, dtype), Drafter(shape.drafter, META, dtype)
        self.weights = sum(t.nbytes for model in models for t in model.slots().values())

    def document(self) -> dict[str, Any]:
        """Bytes, and tokens."""
        first = self._first
        return {
            "weights": self.weights,
            "verification": {v: self.verification(v) for v in VERIFY},
            "per_token": self.bytes(first + 1) - self.bytes(first),
            "cacheable": [
                *(self._row(name, size, size - self.weights) for name, size in MEMORIES.items()),
                *(self._row(name, size, size) for name, size in BESIDE.items()),
            ],
        }

    def verification(self, verifier: str) -> dict[str, int]:
        """Bytes that verifications write ahead of the commit, by what they hold, and their sum.

        Factors and columns are there for every verifier.
        """
        state = self._state(W, verifier)
        columns = state.raw.nbytes * W // state.raw.shape[2]
        factors = sum(t.nbytes for t in (state.z, state.k, state.g))
        factors += 0 if state.alpha is None else state.alpha.nbytes
        own = {name: t.nbytes for name, t in state.verifiers.tensors().items()}
        states = own.pop("states", 0)
        parts = {
            "columns": columns, "factors": factors, "states": states, "ring": sum(own.values()),
        }  # fmt: skip
        return parts | {"sum": sum(parts.values())}

    def bytes(self, tokens: int, verifier: str = "exact") -> int:
        """Of states and caches with room for so many tokens."""
        drafter = DrafterState(self._shape.drafter, tokens, device=META, dtype=self._dtype)
        return self._state(tokens, verifier).nbytes + drafter.nbytes

    def tokens(self, room: int, verifier: str = "exact") -> int:
        """How many tokens fit into so many bytes; 0 where not even a sliding window does."""
        first = self._first
        least = self.bytes(first, verifier)
        if room < least:
            return 0
        return first + (room - least) // (self.bytes(first + 1, verifier) - least)

    @property
    def _first(self) -> int:
        """Tokens from which on each adds as much: sliding layers keep a window."""
        return self._shape.drafter.sliding_window or 1

    def _row(self, name: str, size: int, room: int) -> dict[str, Any]:
        ours, theirs = self.tokens(room), self.tokens(room, "per-token")
        return {"memory": name, "bytes": size, "room": room, "exact": ours, "per-token": theirs}

    def _state(self, tokens: int, verifier: str) -> TargetState:
        """With the buffers of a verifier."""
        state = TargetState(
            self._shape.target, tokens, device=META, dtype=self._dtype, joint=self._joint
        )
        if verifier == "per-token":
            state.verifiers.states()
        elif verifier == "replay":
            state.verifiers.ring()
        return state


def main(arguments: list[str] | None = None) -> int:
    """The 35B shape's in bf16, printed or written; 0, or 2 after an error."""
    parser = Parser(
        prog="python -m hybridspec.bench.scripted.ledger", description=__doc__, allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", type=Path, help=f"folder for {MEMORY}")
    out: Path | None = parser.parse_args(arguments).out

    def run() -> int:
        text = json.dumps(Ledger(SHAPES["35b"], torch.bfloat16, joint=True).document(), indent=1)
        if out is None:
            write_json(text + "\n")
        else:
            made(out)
            write_atomically(out / MEMORY, text + "\n")
        return 0

    return ending(run)


if __name__ == "__main__":
    raise SystemExit(main())
