"""`exact` verification and commit in CUDA C++ (`exact.cu`), for the sizes that `serves` names.

Bit-equal to nothing but themselves: verification and commit of one implementation go together.
W is 16 in all of them, and rows beyond the length are read (nothing comes of it). Tensors that the
kernels would misread (another dtype, an address that is no multiple of 16 bytes) are refused with
a `KernelError`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.gdn.fused import Gates

ROWS, THREADS = 32, 128  # as in state.cuh
EACH = 2  # rows of the state that a thread holds; 1 and 4 are there to be measured


def serves(dk: int, dv: int) -> bool:
    """Whether rows of dk values divide among their threads by 16 bytes, the keys of 16 tokens among
    all 128, and dv by 16 bytes."""
    return dk % max(32, 16 * EACH) == 0 and dv % 4 == 0


def serves_fused(dk: int, dv: int, row: int) -> bool:
    """Whether `fused` takes these sizes and raw columns `row` values apart."""
    return serves(dk, dv) and dk in (32, 64, 128) and row % 4 == 0


def verify(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, z: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `exact.verify`. `early` as in `cuda.Kernel.launch`.

    With `early`, the kernel just before must not be one that writes `state` or `length`: both are
    read without waiting for it.
    """
    check_tokens("verify", q, k, v, beta, alpha, state, o)
    cuda.check("verify", {"z": z}, torch.float32)
    check_counts("verify", length=length)
    kernel = load("exact.cu", "verify", sizes_of(k, v), state.device)
    kernel.launch(grid(v), (q, k, v, beta, alpha, state, o, z, length), early=early)


def commit(
    state: Tensor, z: Tensor, k: Tensor, alpha: Tensor, length: Tensor, *, early: bool = False
) -> None:
    """As `exact.commit`. `early` as in `cuda.Kernel.launch`.

    With `early`, the kernel just before must not be one that writes `state` or `length`.
    """
    layers, value_heads, dv, dk = state.shape
    factors = {"state": state, "z": z, "k": k}
    cuda.check("commit", factors, torch.float32, apart=True)
    cuda.check("commit", {"alpha": alpha}, torch.float32, aligned=4, apart=True)
    check_counts("commit", length=length)
    sizes = defines(k.shape[2], value_heads, dk, dv)
    strides = [t.stride(0) for t in (state, z, k, alpha)]
    load("exact.cu", "commit", sizes, state.device).launch(
        (blocks(dv), value_heads, layers), (state, z, k, alpha, length, *strides), early=early
    )


def fused(
    raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor, z: Tensor, k: Tensor,
    alpha: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `fused.verify`; raw is bf16 or fp32. `early` as in `verify`."""
    value_heads, dv, dk = state.shape
    check_columns("fused", raw, gates, state, gated, squares)
    cuda.check("fused", {"z": z, "k": k}, torch.float32)
    cuda.check("fused", {"alpha": alpha}, torch.float32, aligned=4)
    check_counts("fused", length=length)
    sizes = defines(k.shape[1], value_heads, dk, dv, raw.dtype)
    arguments = (raw, *gates, state, gated, squares, z, k, alpha, length, raw.stride(0))
    kernel = load("exact.cu", "fused", sizes, state.device)
    kernel.launch((blocks(dv), value_heads), arguments, early=early)


def blocks(dv: int) -> int:
    """Programs of a head, each with a part of every sum of squares."""
    return -(-dv // ROWS)


def defines(
    key_heads: int, value_heads: int, dk: int, dv: int, raw: torch.dtype = torch.bfloat16
) -> tuple[tuple[str, int], ...]:
    """The macros of the sources."""
    sizes = (("KH", key_heads), ("VH", value_heads), ("DK", dk), ("DV", dv))
    return (*sizes, ("EACH", EACH), ("RAW_FP32", int(raw == torch.float32)))


def sizes_of(k: Tensor, v: Tensor) -> tuple[tuple[str, int], ...]:
    """`defines` of k [W, KH, dk] and v [W, VH, dv]."""
    return defines(k.shape[1], v.shape[1], k.shape[2], v.shape[2])


def grid(v: Tensor) -> tuple[int, int]:
    """Of a verification of v [W, VH, dv]."""
    return blocks(v.shape[2]), v.shape[1]


def check_tokens(
    kernel: str, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor,
) -> None:  # fmt: skip
    """As `cuda.check`, of a verification's tokens."""
    cuda.check(kernel, {"q": q, "k": k, "v": v, "state": state, "o": o}, torch.float32)
    cuda.check(kernel, {"beta": beta, "alpha": alpha}, torch.float32, aligned=4)


def check_columns(
    kernel: str, raw: Tensor, gates: Gates, state: Tensor, gated: Tensor, squares: Tensor
) -> None:
    """As `cuda.check`, of a verification's columns: raw is bf16 or fp32, and read by fours."""
    dtype = torch.float32 if raw.dtype == torch.float32 else torch.bfloat16
    four = 4 * dtype.itemsize
    cuda.check(kernel, {"raw": raw}, dtype, aligned=four, apart=True)
    cuda.check(kernel, {"gated": gated}, dtype, aligned=four)
    wide = {"gates.taps": gates.taps, "gates.norm": gates.norm, "state": state}
    cuda.check(kernel, wide, torch.float32)
    single = {"gates.rate": gates.rate, "gates.bias": gates.bias, "squares": squares}
    cuda.check(kernel, single, torch.float32, aligned=4)


def check_counts(kernel: str, **counts: Tensor) -> None:
    """As `cuda.check`, of lengths and counters on the device."""
    cuda.check(kernel, counts, torch.int32, aligned=4)


def load(
    file: str, name: str, sizes: tuple[tuple[str, int], ...], device: torch.device
) -> cuda.Kernel:
    """A kernel of this folder.

    Raises:
        KernelError: the device is no CUDA device, or it does not compile there.
    """
    if device.type != "cuda":
        raise cuda.KernelError(f"The kernel {name} is for a CUDA device; its state is on {device}.")
    return cuda.load(__package__, file, name, sizes, THREADS, device.index)
