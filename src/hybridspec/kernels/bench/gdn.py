"""Timings of GDN verification and commit over 30 layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels.bench.setting import Setting
from hybridspec.kernels.gdn import block, exact, fused
from hybridspec.kernels.gdn.fused import Gates

LAYERS, SETS = 30, 2  # two sets of states are 126 MB: more than a second-level cache
LENGTHS = (1, 2, 4, 8, 16)


@dataclass
class Layers:
    """Buffers of all layers of a set, those of a layer in a row."""

    raw: Tensor
    state: Tensor
    z: Tensor
    k: Tensor
    alpha: Tensor
    gates: Gates
    gated: Tensor
    squares: Tensor
    tokens: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # q, k, v, beta, g of one layer
    o: Tensor


def gates(s: Setting) -> Gates:
    """A layer's small weights."""
    heads, wide = s.shape.value_heads, torch.float32
    return Gates(
        s.normal(4, s.shape.channels, dtype=wide, size=0.5),
        -s.normal(heads, dtype=wide).exp(), s.normal(heads, dtype=wide),
        1 + s.normal(s.shape.dv, dtype=wide, size=0.1),
    )  # fmt: skip


def layers(s: Setting, count: int) -> Layers:
    """Random inputs and states."""
    h, wide = s.shape, torch.float32
    value, key = (16, h.value_heads, h.dv), (16, h.key_heads, h.dk)
    q, k = (torch.nn.functional.normalize(s.normal(*key, dtype=wide), dim=-1) for _ in range(2))
    beta, g = (s.normal(16, h.value_heads, dtype=wide).sigmoid() for _ in range(2))
    return Layers(
        s.normal(count, 19, h.joint), s.normal(count, h.value_heads, h.dv, h.dk, dtype=wide),
        s.empty(count, *value, dtype=wide), s.empty(count, *key, dtype=wide),
        s.empty(count, 16, h.value_heads, dtype=wide), gates(s), s.empty(*value),
        s.empty(16, h.value_heads, fused.blocks(h.dv), dtype=wide),
        (q * h.dk**-0.5, k, s.normal(*value, dtype=wide), beta, g.log()),
        s.empty(*value, dtype=wide),
    )  # fmt: skip


Verify = Callable[[Layers, int, Tensor], None]


def fused_by(kernel: Callable[..., None], **options: bool) -> Verify:
    """Verification of a layer from raw columns."""

    def verify(a: Layers, i: int, length: Tensor) -> None:
        kernel(a.raw[i], a.gates, a.state[i], a.gated, a.squares, a.z[i], a.k[i], a.alpha[i],
               length, **options)  # fmt: skip

    return verify


def plain_by(kernel: Callable[..., None], decay: int, **options: bool) -> Verify:
    """Verification of a layer from q, k, v; decay 0: as alpha, 1: as its logarithm."""

    def verify(a: Layers, i: int, length: Tensor) -> None:
        *tokens, g = a.tokens
        kernel(*tokens, g if decay else a.alpha[i], a.state[i], a.o, a.z[i], length, **options)

    return verify


def forms(s: Setting) -> dict[str, Verify]:
    """Every verification there is here."""
    made = {
        "fused, Triton": fused_by(fused.verify),
        "exact, Triton": plain_by(exact.verify, 0),
        "block, Triton": plain_by(block.verify, 1),
    }
    if s.device.type == "cuda":
        from hybridspec.kernels.gdn import exact_cuda

        made = {
            "fused, CUDA": fused_by(exact_cuda.fused, **s.options),
            "exact, CUDA": plain_by(exact_cuda.verify, 0, **s.options),
        } | made
    return made


def commit_of(s: Setting) -> Callable[[Layers, Tensor], None]:
    """The commit of all layers."""
    if s.device.type != "cuda":
        return lambda a, m: exact.commit(a.state, a.z, a.k, a.alpha, m)
    from hybridspec.kernels.gdn import exact_cuda

    return lambda a, m: exact_cuda.commit(a.state, a.z, a.k, a.alpha, m, **s.options)


def time_gdn(s: Setting) -> None:
    """A round of each form and length, m = w: verification, commit and both."""
    count, turns = (LAYERS, SETS) if s.device.type == "cuda" else (2, 1)
    sets, commit = [layers(s, count) for _ in range(turns)], commit_of(s)
    length = s.scalar(1)

    def rounds(verify: Verify | None, *, ends: bool) -> list[Callable[[], None]]:
        def one(a: Layers) -> None:
            for i in range(count if verify else 0):
                verify(a, i, length)
            if ends:
                commit(a, length)

        return [lambda a=a: one(a) for a in sets]

    size = sets[0].state.nbytes
    for name, verify in forms(s).items():
        for w in LENGTHS:
            length.fill_(w)
            s.timed(f"gdn {name}: verify, w = {w}", "", rounds(verify, ends=False), size)
            if "CUDA" in name:
                s.timed(f"gdn {name}: round, w = {w}", "", rounds(verify, ends=True), 3 * size)
    for w in LENGTHS:
        length.fill_(w)
        s.timed(f"gdn commit, m = {w}", "", rounds(None, ends=True), 2 * size)
    columns = sets[0].raw
    call = lambda: fused.advance(columns, s.shape.channels, length)  # noqa: E731
    s.timed("conv columns advance", "", [call], 12 * s.shape.channels * count)
