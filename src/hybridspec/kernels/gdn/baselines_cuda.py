"""The verifiers `per-token` and `replay` in CUDA C++ (`baselines.cu`), to measure `exact` against.

They serve the sizes of `exact_cuda` and share its token loop, so that they differ from it by what
they keep alone: outputs have the bits of `exact_cuda`, and so have committed states. `early` as in
`cuda.Kernel.launch`; with it, the kernel just before must be neither the commit of the last round
nor one that writes `length`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.gdn.baselines import Ring
from hybridspec.kernels.gdn.exact_cuda import (
    THREADS,
    blocks,
    check_columns,
    check_counts,
    check_tokens,
    defines,
    grid,
    load,
    sizes_of,
)
from hybridspec.kernels.gdn.fused import Gates

COPIED = 8 * 4  # floats that a thread copies, as in baselines.cu
GROUPS = 8  # of layers in a fold: about a thousand blocks, resident all at once


def per_token(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, states: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `exact_cuda.verify`, with states [16, VH, dv, dk] fp32 after every token for z."""
    check_tokens("per_token", q, k, v, beta, alpha, state, o)
    cuda.check("per_token", {"states": states}, torch.float32)
    check_counts("per_token", length=length)
    kernel = load("baselines.cu", "per_token", sizes_of(k, v), state.device)
    kernel.launch(grid(v), (q, k, v, beta, alpha, state, o, states, length), early=early)


def per_token_fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, states: Tensor,
    length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `baselines.per_token_fused`; raw is bf16 or fp32."""
    check_columns("per_token_fused", raw, gates, state, gated, squares)
    cuda.check("per_token_fused", {"states": states}, torch.float32)
    check_counts("per_token_fused", length=length)
    value_heads, dv, dk = state.shape
    sizes = defines(_key_heads(gates, state), value_heads, dk, dv, raw.dtype)
    arguments = (raw, *gates, state, gated, squares, states, length, raw.stride(0))
    kernel = load("baselines.cu", "per_token_fused", sizes, state.device)
    kernel.launch((blocks(dv), value_heads), arguments, early=early)


def per_token_commit(state: Tensor, states: Tensor, length: Tensor, *, early: bool = False) -> None:
    """As `baselines.per_token_commit`. Here `early` asks nothing of the kernel before."""
    layers, value_heads, dv, dk = state.shape
    both = {"state": state, "states": states}
    cuda.check("per_token_commit", both, torch.float32, apart=True)
    check_counts("per_token_commit", length=length)
    programs = -(-value_heads * dv * dk // (THREADS * COPIED))
    kernel = load("baselines.cu", "per_token_commit", defines(1, value_heads, dk, dv), state.device)
    arguments = (state, states, length, state.stride(0), states.stride(0))
    kernel.launch((programs, layers), arguments, early=early)


def replay(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, ring: Ring, pending: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `exact_cuda.verify` from the state `pending` tokens on; the ring of this layer, as in
    `baselines.replay_fused`, takes z, k and alpha."""
    check_tokens("replay", q, k, v, beta, alpha, state, o)
    _check_ring("replay", ring, apart=False)
    check_counts("replay", pending=pending, length=length)
    kernel = load("baselines.cu", "replay", sizes_of(k, v), state.device)
    arguments = (q, k, v, beta, alpha, state, o, *ring, pending, length)
    kernel.launch(grid(v), arguments, early=early)


def replay_fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, ring: Ring,
    pending: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `baselines.replay_fused`; raw is bf16 or fp32."""
    check_columns("replay_fused", raw, gates, state, gated, squares)
    _check_ring("replay_fused", ring, apart=False)
    check_counts("replay_fused", pending=pending, length=length)
    value_heads, dv, dk = state.shape
    sizes = defines(ring.k.shape[1], value_heads, dk, dv, raw.dtype)
    arguments = (raw, *gates, state, gated, squares, *ring, pending, length, raw.stride(0))
    kernel = load("baselines.cu", "replay_fused", sizes, state.device)
    kernel.launch((blocks(dv), value_heads), arguments, early=early)


def replay_commit(
    state: Tensor, ring: Ring, pending: Tensor, scratch: Tensor, length: Tensor,
    *, early: bool = False,
) -> None:  # fmt: skip
    """As `baselines.replay_commit`, in one launch. `early` asks nothing of the kernel before."""
    layers, value_heads, dv, dk = state.shape
    cuda.check("replay_commit", {"state": state}, torch.float32, apart=True)
    _check_ring("replay_commit", ring, apart=True)
    check_counts("replay_commit", pending=pending, scratch=scratch, length=length)
    sizes = defines(ring.k.shape[2], value_heads, dk, dv)
    strides = [t.stride(0) for t in (state, *ring)]
    arguments = (state, *ring, pending, scratch, length, *strides, layers)
    kernel = load("baselines.cu", "replay_commit", sizes, state.device)
    kernel.launch((blocks(dv), value_heads, min(layers, GROUPS)), arguments, early=early)


def _check_ring(kernel: str, ring: Ring, *, apart: bool) -> None:
    cuda.check(kernel, {"ring.z": ring.z, "ring.k": ring.k}, torch.float32, apart=apart)
    cuda.check(kernel, {"ring.alpha": ring.alpha}, torch.float32, aligned=4, apart=apart)


def _key_heads(gates: Gates, state: Tensor) -> int:
    """From the channels of the convolution, 2 KH dk + VH dv."""
    value_heads, dv, dk = state.shape
    return (gates.taps.shape[1] - value_heads * dv) // (2 * dk)
