"""A round of GDN verification and commit in all layers, by every verifier: the paper's Table 5.

From q, k, v and gates as the paper's (`plain`), and from raw columns (`fused`, whose producer is
the same for all). m = w, all drafts accepted, and m = ceil(w / 2). `replay` folds its ring in some
rounds only, so its time is the mean over ROUNDS of them. Peers: `peers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import Tensor

from hybridspec.kernels.bench.gdn import LAYERS, SETS, Layers, layers
from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.gdn import baselines, block, exact, fused
from hybridspec.kernels.gdn.baselines import Ring

LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
ROUNDS = 300


@dataclass
class Memory:
    """A set of layers and what single verifiers keep beside."""

    a: Layers
    states: Tensor
    ring: Ring
    pending: Tensor
    scratch: Tensor


Verify = Callable[[Memory, int, Tensor], None]
Commit = Callable[[Memory, Tensor], None]


def memory(s: Setting, count: int) -> Memory:
    """Random layers; nothing is pending."""
    h, a = s.shape, layers(s, count)
    a.alpha[:] = a.tokens[4].exp()
    a.k[:] = a.tokens[1]
    states = s.empty(count, 16, h.value_heads, h.dv, h.dk, dtype=torch.float32)
    ring = Ring.empty(count, h.key_heads, h.value_heads, h.dk, h.dv, s.device)
    return Memory(a, states, ring, s.scalar(0), s.scalar(0))


def systems(s: Setting) -> dict[str, tuple[Verify, Commit]]:
    """Verification of a layer and commit of all, by name; CUDA C++ where there is a GPU."""
    if s.device.type != "cuda":
        return _fused(fused.verify, exact.commit, baselines, {})
    from hybridspec.kernels.gdn import baselines_cuda, exact_cuda

    return _plain(s) | _fused(exact_cuda.fused, exact_cuda.commit, baselines_cuda, s.options)


def _fused(
    verify: Callable[..., None], commit: Callable[..., None], ours: ModuleType, o: dict[str, bool]
) -> dict[str, tuple[Verify, Commit]]:
    def columns(x: Memory, i: int) -> tuple[object, ...]:
        a = x.a
        return a.raw[i], a.gates, a.state[i], a.gated, a.squares

    return {
        "exact fused": (
            lambda x, i, w: verify(*columns(x, i), x.a.z[i], x.a.k[i], x.a.alpha[i], w, **o),
            lambda x, m: commit(x.a.state, x.a.z, x.a.k, x.a.alpha, m, **o),
        ),
        "per-token fused": (
            lambda x, i, w: ours.per_token_fused(*columns(x, i), x.states[i], w, **o),
            lambda x, m: ours.per_token_commit(x.a.state, x.states, m, **o),
        ),
        "replay fused": (
            lambda x, i, w: ours.replay_fused(
                *columns(x, i), x.ring.layer(i), x.pending, w, **o
            ),
            lambda x, m: ours.replay_commit(x.a.state, x.ring, x.pending, x.scratch, m, **o),
        ),
    }  # fmt: skip


def _plain(s: Setting) -> dict[str, tuple[Verify, Commit]]:
    from hybridspec.kernels.gdn import baselines_cuda, exact_cuda

    o = s.options

    def tokens(x: Memory, i: int) -> tuple[Tensor, ...]:
        return *x.a.tokens[:4], x.a.alpha[i]

    def retrace(x: Memory, m: Tensor) -> None:
        exact_cuda.commit(x.a.state, x.a.z, x.a.k, x.a.alpha, m, **o)

    return {
        "exact": (
            lambda x, i, w: exact_cuda.verify(
                *tokens(x, i), x.a.state[i], x.a.o, x.a.z[i], w, **o
            ),
            retrace,
        ),
        "block": (
            lambda x, i, w: block.verify(*x.a.tokens, x.a.state[i], x.a.o, x.a.z[i], w),
            retrace,
        ),
        "per-token": (
            lambda x, i, w: baselines_cuda.per_token(
                *tokens(x, i), x.a.state[i], x.a.o, x.states[i], w, **o
            ),
            lambda x, m: baselines_cuda.per_token_commit(x.a.state, x.states, m, **o),
        ),
        "replay": (
            lambda x, i, w: baselines_cuda.replay(
                *tokens(x, i), x.a.state[i], x.a.o, x.ring.layer(i), x.pending, w, **o
            ),
            lambda x, m: baselines_cuda.replay_commit(
                x.a.state, x.ring, x.pending, x.scratch, m, **o
            ),
        ),
    }  # fmt: skip


def time_verifiers(s: Setting) -> None:
    """Every verifier at every length. Bytes: states read, written and copied, no factors."""
    count, turns = (LAYERS, SETS) if s.device.type == "cuda" else (2, 1)
    lengths = LENGTHS if s.device.type == "cuda" else (1, 3)
    sets, w, m = [memory(s, count) for _ in range(turns)], s.scalar(1), s.scalar(1)
    size = sets[0].a.state.nbytes
    for name, (verify, commit) in systems(s).items():
        for x in sets:
            x.pending.zero_()

        def one(x: Memory, verify: Verify = verify, commit: Commit = commit) -> None:
            for i in range(count):
                verify(x, i, w)
            commit(x, m)

        w.fill_(1), m.fill_(1)
        timing = s.clock.timing([lambda x=x: one(x) for x in sets])  # one graph, all lengths
        for given in lengths:
            for kept in sorted({given, -(-given // 2)}):
                w.fill_(given), m.fill_(kept)
                rounds = ROUNDS if name.startswith("replay") else None
                moved = size * states_moved(name, given, kept)
                s.took(f"round {name}: w = {given}, m = {kept}", "", timing(rounds), moved)


def states_moved(name: str, w: int, m: int) -> float:
    """States that a round reads and writes (`gdn/README.md`, bytes); `replay`: in the mean."""
    if name.startswith("per-token"):
        return 3 + w
    if name.startswith("replay"):
        return 1 + 2 / -(-17 // m)
    return 3


def check_verifiers(s: Setting) -> None:
    """Rounds of each baseline give the bits of `exact` on the same columns: outputs and states."""
    made = {n: p for n, p in systems(s).items() if n.endswith("fused")}
    start, found = memory(s, 2), {}
    for name, (verify, commit) in made.items():
        x = memory(s, 2)
        x.a.raw.copy_(start.a.raw)
        x.a.state.copy_(start.a.state * s.shape.dk**-0.5)
        x.a.gates = start.a.gates
        outputs = []
        for w, m in ((9, 9), (4, 1), (16, 8)):  # 18 tokens: the last round folds the ring
            for i in range(2):
                verify(x, i, s.scalar(w))
                outputs.append(x.a.gated[:w].clone())
            commit(x, s.scalar(m))
        found[name] = torch.cat(outputs), x.a.state
    for name, (outputs_, state) in found.items():
        expected = found["exact fused"]
        equal = torch.equal(outputs_, expected[0]) and torch.equal(state, expected[1])
        s.keep({"name": f"check {name}: bits of exact over rounds", "ok": equal})
