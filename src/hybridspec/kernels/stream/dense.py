"""Products of at most 16 rows in CUDA C++ (`dense.cu`): those of `linear/product.py`, nearer to
memory's speed. A row's bits depend neither on the other rows nor on how many there are."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.linear.norm import Next, Normed
from hybridspec.kernels.stream import config
from hybridspec.kernels.stream.config import PLAIN, Launch

NONE, ROW, HEADS = 0, 1, 2  # which norm


def serves(w: Tensor) -> bool:
    """Whether weights w [N, K] are multiplied here."""
    return config.depth_serves(w, w.shape[1])


def serves_gated(w: Tensor, heads: int) -> bool:
    """Whether `gated_product` multiplies w [N, heads * d]."""
    return serves(w) and w.shape[1] == heads * config.HEAD


def product(
    x: Tensor, w: Tensor, y: Tensor, length: Tensor, residual: Tensor, after: Next, *,
    launch: Launch = PLAIN,
) -> None:  # fmt: skip
    """y = residual + x w^T, left for the norm after it.

    Args:
        x: [16, K] and w: [N, K], bf16, contiguous.
        y, residual: [16, N] bf16; rows may lie apart; y may be the residual.
        length: [] int32; rows of x and y beyond it are left alone.
        launch: early, the kernel just before must not write the length or the residual.
    """
    _launch(x, w, y, length, NONE, residual=residual, after=after, launch=launch)


def norm_product(
    x: Normed, eps: float, w: Tensor, y: Tensor, length: Tensor, *,
    launch: Launch = PLAIN,
) -> None:  # fmt: skip
    """y = norm(x) w^T; y is bf16 or fp32. The rest as in `product`."""
    _launch(x.scaled, w, y, length, ROW, squares=x.squares, eps=eps, launch=launch)


def up_product(
    x: Normed, eps: float, w: Tensor, y: Tensor, length: Tensor, *, launch: Launch = PLAIN
) -> None:
    """y [16, I] = silu(gate) * up of norm(x); w [2 I, K] is gate above up. The rest as in
    `product`."""
    _launch(x.scaled, w, y, length, ROW, squares=x.squares, eps=eps, paired=True, launch=launch)


def gated_product(
    gated: Tensor, squares: Tensor, eps: float, w: Tensor, y: Tensor, length: Tensor,
    residual: Tensor, after: Next, *, launch: Launch = PLAIN,
) -> None:  # fmt: skip
    """The end of a GDN mixer: every head's norm, a product and the residual.

    Args:
        gated: [16, 128 H]; squares: [16, H, blocks] fp32, as `linear.product.gated_product`.
        The rest as in `product`.
    """
    _launch(gated, w, y, length, HEADS, squares=squares, parts=squares.shape[2], eps=eps,
            residual=residual, after=after, launch=launch)  # fmt: skip


def sizes(
    k: int,
    norm: int,
    *,
    ends: bool,
    wide: bool,
    paired: bool = False,
    parts: int = 0,
    deep: int = 2,
) -> tuple[tuple[str, int], ...]:
    """The macros of `dense.cu`."""
    return (("K", k), ("NORM", norm), ("END", int(ends)), ("WIDE", int(wide)),
            ("PAIRED", int(paired)), ("PARTS", parts), ("DEEP", deep))  # fmt: skip


def _launch(
    x: Tensor, w: Tensor, y: Tensor, length: Tensor, norm: int, *, squares: Tensor | None = None,
    parts: int = 0, eps: float = 0.0, residual: Tensor | None = None, after: Next | None = None,
    paired: bool = False, launch: Launch,
) -> None:  # fmt: skip
    rows, k = w.shape
    n, cols = (rows // 2, config.COLS // 2) if paired else (rows, config.COLS)
    cuda.check("dense", {"x": x, "w": w}, torch.bfloat16)
    device, deep = w.device, config.deep(w.device, launch)
    macros = sizes(k, norm, ends=after is not None, wide=y.dtype == torch.float32,
                   paired=paired, parts=parts, deep=deep)  # fmt: skip
    kernel = cuda.load(
        __package__, "dense.cu", "dense", macros, config.THREADS, device.index, deep * config.STEP
    )
    pointers = after.pointers() if after else (None, None, None)
    apart = 0 if residual is None else residual.stride(0)
    kernel.launch(
        (config.blocks(device, -(-n // cols), launch),),
        (x, w, length, squares, eps, y, y.stride(0), residual, apart, *pointers, n),
        early=launch.early,
    )
