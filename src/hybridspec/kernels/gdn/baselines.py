"""The verifiers `per-token` and `replay` in Triton, and the ring that the latter keeps.

Baselines: what serving systems do, on the producer and the token loop of `fused`, so that they
differ from `exact` by what they keep alone, and all three give the same bits: a state is the same
whether it was stored or is made again from its factors. `baselines.cu` has the same in CUDA C++,
which is what to time; this is interpreted where there is no GPU. The law: `naive.recurrent` with
states, and `runtime/state.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn import exact
from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.kernels.gdn.fused import Gates, launch

W, ROWS = 16, 32  # most tokens of a verification; rows of the ring


class Ring(NamedTuple):
    """Factors of committed tokens that are not in the state yet, and behind them those of the last
    verification: z [32, VH, dv], k [32, KH, dk], alpha [32, VH], fp32. For a commit, [L, 32, ...].
    """

    z: Tensor
    k: Tensor
    alpha: Tensor

    @classmethod
    def empty(
        cls, layers: int, key_heads: int, value_heads: int, dk: int, dv: int,
        device: torch.device | str,
    ) -> Ring:  # fmt: skip
        """Of all layers."""
        shapes = (value_heads, dv), (key_heads, dk), (value_heads,)
        return cls(*(torch.zeros(layers, ROWS, *shape, device=device) for shape in shapes))

    def layer(self, i: int) -> Ring:
        """Of one layer."""
        return Ring(*(t[i] for t in self))


@triton.jit
def _copy(  # type: ignore[no-untyped-def]
    state, states, length, state_layer, states_layer, SIZE: tl.constexpr, COUNT: tl.constexpr
):
    layer, at = tl.program_id(1).to(tl.int64), tl.program_id(0) * COUNT + tl.arange(0, COUNT)
    m = tl.load(length).to(tl.int64)
    mask = (at < SIZE) & (m > 0)
    kept = tl.load(states + layer * states_layer + (m - 1) * SIZE + at, mask=mask)
    tl.store(state + layer * state_layer + at, kept, mask=mask)


@triton.jit
def _move(pending, folded, length, W: tl.constexpr, ROWS: tl.constexpr):  # type: ignore[no-untyped-def]
    n = tl.load(pending) + tl.load(length)
    folds = ROWS - n < W
    tl.store(folded, tl.where(folds, n, 0))
    tl.store(pending, tl.where(folds, 0, n))


def per_token_fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, states: Tensor,
    length: Tensor, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Verify `length` tokens of one layer and store the state after each.

    Args:
        raw, gates, state, gated, squares, length: as in `fused.verify`.
        states: [16, VH, dv, dk] fp32, written in rows 0..length-1.
    """
    value_heads, dv, dk = state.shape
    key_heads = (gates.taps.shape[1] - value_heads * dv) // (2 * dk)
    none = (None, None, None)
    launch(raw, gates, state, gated, squares, none, states, None, length, key_heads, config)


def per_token_commit(state: Tensor, states: Tensor, length: Tensor) -> None:
    """The m-th stored state becomes the state, in all layers; with m = 0 nothing happens.

    Args:
        state: [L, VH, dv, dk] fp32. Layers may lie apart, as in
        states: [L, 16, VH, dv, dk] fp32.
        length: [] int32 on the device, m.
    """
    size = state[0].numel()
    grid = (triton.cdiv(size, 1024), state.shape[0])
    _copy[grid](state, states, length, state.stride(0), states.stride(0), size, 1024)


def replay_fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, ring: Ring,
    pending: Tensor, length: Tensor, config: GDNConfig | None = None,
) -> None:  # fmt: skip
    """Verify `length` tokens of one layer whose state lies `pending` tokens back.

    The factors of these are replayed; those of the new tokens are written behind them.

    Args:
        raw, gates, state, gated, squares, length: as in `fused.verify`; state is the checkpoint.
        ring: of this layer.
        pending: [] int32 on the device, at most 16, of all layers.
    """
    key_heads = ring.k.shape[1]
    launch(raw, gates, state, gated, squares, ring, None, pending, length, key_heads, config)


def replay_commit(
    state: Tensor, ring: Ring, pending: Tensor, scratch: Tensor, length: Tensor
) -> None:
    """m more tokens are pending; where fewer than 16 rows would be free, all are folded into the
    states instead, and none is.

    Args:
        state: [L, VH, dv, dk] fp32, checkpoints. Layers may lie apart, as in `ring`.
        ring: of all layers.
        pending: as in `replay_fused`, changed in place.
        scratch: [] int32 on the device, 0 before the first call; it belongs to this kernel.
        length: [] int32 on the device, m.
    """
    _move[(1,)](pending, scratch, length, W, ROWS)
    exact.commit(state, *ring, scratch)
    scratch.zero_()
