"""`exact` verification and commit in CUDA C++ (`exact.cu`), for the sizes that `serves` names.

Bit-equal to nothing but themselves: verification and commit of one implementation go together.
W is 16 in all of them, and rows beyond the length are read (nothing comes of it).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.gdn.fused import Gates

ROWS, THREADS = 32, 128  # as in exact.cu


def serves(dk: int, dv: int) -> bool:
    """Whether rows of dk values divide among four threads by 16 bytes, and dv by 16 bytes."""
    return dk % 16 == 0 and dv % 4 == 0


def serves_fused(dk: int, dv: int, row: int) -> bool:
    """Whether `fused` takes these sizes and raw columns `row` values apart."""
    return dk in (16, 32, 64, 128) and dv % 4 == 0 and row % 4 == 0


def verify(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, z: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `exact.verify`. `early` as in `cuda.Kernel.launch`.

    With `early`, the commit that wrote `state` must not be the kernel just before.
    """
    key_heads, dk = k.shape[1:]
    value_heads, dv = v.shape[1:]
    kernel = _kernel("verify", defines(key_heads, value_heads, dk, dv), v.device.index)
    kernel.launch(
        (blocks(dv), value_heads), (q, k, v, beta, alpha, state, o, z, length), early=early
    )


def commit(
    state: Tensor, z: Tensor, k: Tensor, alpha: Tensor, length: Tensor, *, early: bool = False
) -> None:
    """As `exact.commit`. `early` as in `cuda.Kernel.launch`.

    With `early`, the kernel just before must not be one that writes `state`.
    """
    layers, value_heads, dv, dk = state.shape
    kernel = _kernel("commit", defines(k.shape[2], value_heads, dk, dv), state.device.index)
    strides = [t.stride(0) for t in (state, z, k, alpha)]
    kernel.launch(
        (blocks(dv), value_heads, layers), (state, z, k, alpha, length, *strides), early=early
    )


def fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, z: Tensor, k: Tensor,
    alpha: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `fused.verify`; raw is bf16 or fp32. `early` as in `verify`."""
    value_heads, dv, dk = state.shape
    sizes = defines(k.shape[1], value_heads, dk, dv, raw.dtype)
    kernel = _kernel("fused", sizes, state.device.index)
    arguments = (raw, *gates, state, gated, squares, z, k, alpha, length, raw.stride(0))
    kernel.launch((blocks(dv), value_heads), arguments, early=early)


def blocks(dv: int) -> int:
    """Programs of a head, each with a part of every sum of squares."""
    return -(-dv // ROWS)


def defines(
    key_heads: int, value_heads: int, dk: int, dv: int, raw: torch.dtype = torch.bfloat16
) -> tuple[tuple[str, int], ...]:
    """The macros of `exact.cu`."""
    wide = int(raw == torch.float32)
    return (("KH", key_heads), ("VH", value_heads), ("DK", dk), ("DV", dv), ("RAW_FP32", wide))


def _kernel(name: str, sizes: tuple[tuple[str, int], ...], device: int) -> cuda.Kernel:
    return cuda.load(__package__, "exact.cu", name, sizes, THREADS, device)
