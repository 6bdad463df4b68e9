"""`exact` verification and commit in CUDA C++ (`exact.cu`), for key sizes that are multiples of 16.

Bit-equal to nothing but themselves: verification and commit of one implementation go together.
"""

from __future__ import annotations

from torch import Tensor

from hybridspec.kernels import cuda

ROWS, THREADS = 32, 128  # as in exact.cu


def serves(dk: int) -> bool:
    """Whether rows of dk values divide among four threads by 16 bytes."""
    return dk % 16 == 0


def verify(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, alpha: Tensor, state: Tensor,
    o: Tensor, z: Tensor, length: Tensor, *, early: bool = False,
) -> None:  # fmt: skip
    """As `exact.verify`; W is at most 16. `early` as in `cuda.Kernel.launch`.

    With `early`, the commit that wrote `state` must not be the kernel just before.
    """
    key_heads, dk = k.shape[1:]
    value_heads, dv = v.shape[1:]
    kernel = _kernel("verify", key_heads, value_heads, dk, dv, v.device.index)
    kernel.launch(
        (-(-dv // ROWS), value_heads), (q, k, v, beta, alpha, state, o, z, length), early=early
    )


def commit(
    state: Tensor, z: Tensor, k: Tensor, alpha: Tensor, length: Tensor, *, early: bool = False
) -> None:
    """As `exact.commit`; W is at most 16. `early` as in `cuda.Kernel.launch`."""
    layers, value_heads, dv, dk = state.shape
    kernel = _kernel("commit", k.shape[2], value_heads, dk, dv, state.device.index)
    strides = [t.stride(0) for t in (state, z, k, alpha)]
    kernel.launch(
        (-(-dv // ROWS), value_heads, layers), (state, z, k, alpha, length, *strides), early=early
    )


def defines(key_heads: int, value_heads: int, dk: int, dv: int) -> tuple[tuple[str, int], ...]:
    """The macros of `exact.cu`."""
    return (("KH", key_heads), ("VH", value_heads), ("DK", dk), ("DV", dv))


def _kernel(
    name: str, key_heads: int, value_heads: int, dk: int, dv: int, device: int
) -> cuda.Kernel:
    sizes = defines(key_heads, value_heads, dk, dv)
    return cuda.load(__package__, "exact.cu", name, sizes, THREADS, device)
