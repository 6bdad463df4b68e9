"""Every kernel of a pass once at small sizes, for a tool that watches each access of memory.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer python -m hybridspec.kernels.bench.once

`make sanitize-gpu` does that. Heads are as large as a real model's, for they decide how kernels are
cut; there are few of them, and few experts and layers. Nothing is recorded as a graph and nothing
is compared: results are the tests' matter. Without a GPU a tiny shape is interpreted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch

from hybridspec.bench.parsing import Parser
from hybridspec.kernels.bench import drafter
from hybridspec.kernels.bench.clock import Clock
from hybridspec.kernels.bench.forward import fill
from hybridspec.kernels.bench.gdn import forms, layers
from hybridspec.kernels.bench.setting import SHAPES, Setting, Shape
from hybridspec.kernels.bench.verifiers import memory, systems
from hybridspec.kernels.early import has_early
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.model.gdn import VERIFY, Verifier
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot, TargetState

PROG = "python -m hybridspec.kernels.bench.once"
SMALL = {
    "35b": Shape(1024, 4, 8, 128, 128, 16, 8, 512, 512, 512, 4, 8, 1, 256, ()),
    "pair": Shape(320, 4, 8, 32, 32, 32, 4, 16, 192, 512, 4, 4, 2, 64, ()),
}
CONTEXT = 80  # tokens of a prompt: a chunk of 64 and a part of one
LENGTHS = (5, 16)  # w; of a split verification two tokens fewer go on

Step = tuple[str, Callable[[], None]]


def steps(s: Setting) -> Iterator[Step]:
    """Names of kernels, and what runs them."""
    for name in forms(s):
        yield f"gdn {name}", partial(_verify, s, name)
    for name in systems(s):
        yield f"round {name}", partial(_round, s, name)
    yield "a prompt and whole passes", partial(_passes, s)
    yield "drafter", partial(_drafter, s)


def _verify(s: Setting, name: str) -> None:
    a = layers(s, 2)
    for w in LENGTHS:
        forms(s)[name](a, 1, s.scalar(w))


def _round(s: Setting, name: str) -> None:
    """Three rounds of 16 tokens, so that a ring is replayed and folded."""
    verify, commit = systems(s)[name]
    x = memory(s, 2)
    for _ in range(3):
        verify(x, 1, s.scalar(16))
        commit(x, s.scalar(9))


def _passes(s: Setting) -> None:
    """Every verifier's over one sequence: split, whole and the commit."""
    config = s.shape.target()
    target = Target(config, s.device, s.dtype)
    fill(s, target, 0.0)
    target.set_context(4 * CONTEXT)
    state = TargetState(config, 4 * CONTEXT, device=s.device, dtype=s.dtype, joint=True)
    slot, weights = state.slot(0, (0, 1)), TargetWeights.of(target)
    target.prefill(_ids(s, CONTEXT), slot)
    for verifier in VERIFY:
        _pass(s, target, weights, slot, verifier)


def _pass(
    s: Setting, target: Target, weights: TargetWeights, slot: TargetSlot, verifier: Verifier
) -> None:
    c, parts = target.config, blocks(target.config, s.device.type, s.dtype)
    b = Buffers.empty(c, len(slot.tap_layers), parts, slot.keys.shape[2], s.device, s.dtype)
    run = TargetPass(target, weights, slot, b, early=s.early, verifier=verifier)
    for u in LENGTHS:
        b.tokens.copy_(_ids(s, 16))
        run.recurrence.begin(slot)
        w, m = u - 2, u - 3
        b.lengths.all.copy_(torch.tensor([slot.length, u, w, m], dtype=torch.int32))
        run.stage0()
        run.stage1()
        run.unsplit()
        run.commit()
        run.recurrence.committed(slot, m)
        slot.length += m


def _ids(s: Setting, count: int) -> torch.Tensor:
    return torch.randint(s.shape.vocabulary, (count,), generator=s.generator, device=s.device)


def _drafter(s: Setting) -> None:
    p = drafter.build(s, drafter.random_draft(s))
    p.buffers.features.normal_(generator=s.generator)
    for held, added in ((0, 16), (16, 5)):
        drafter.lengths(p, held, added)
        p.extend()
        p.propose(scored=True)


def settings() -> Iterator[tuple[str, Setting]]:
    """The shapes, in bf16 on a GPU."""
    if not torch.cuda.is_available():
        yield "small", Setting(SHAPES["small"], torch.device("cpu"), torch.float32, Clock(), False)
        return
    device = torch.device("cuda", torch.cuda.current_device())
    for name, shape in SMALL.items():
        yield name, Setting(shape, device, torch.bfloat16, Clock(), has_early(device))


def main(arguments: list[str] | None = None) -> int:
    """Run all of them. Returns 1 if time was up before the last, else 0."""
    parser = Parser(prog=PROG, description="Run every kernel once, to be watched.")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N",
                        help="begin none later than this after the start")  # fmt: skip
    given, began = parser.parse_args(arguments), time.monotonic()
    left = []
    for shape, s in settings():
        for name, step in steps(s):
            if time.monotonic() - began > given.seconds:
                left.append(f"{shape}: {name}")
                continue
            print(f"{time.monotonic() - began:6.1f} s  {shape}: {name}", flush=True)
            with torch.no_grad():
                step()
            if s.device.type == "cuda":
                torch.cuda.synchronize()
    if left:
        sys.stdout.write(f"Left out, for time was up: {'; '.join(left)}.\n")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main())
