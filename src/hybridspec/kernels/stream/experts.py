"""The experts of a block in CUDA C++ (`experts.cu`), nearer to memory's speed than Triton."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.linear.norm import Next, Normed
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import Routed
from hybridspec.kernels.stream import config
from hybridspec.kernels.stream.config import PLAIN, Launch


def serves(w: Weights) -> bool:
    """Whether these experts run here."""
    hidden, widths = w.router.shape[1], (w.down.shape[2], w.shared_down.shape[1])
    return config.rows_serve(w.down, hidden) and all(map(config.width_serves, widths))


def up(
    x: Normed, eps: float, w: Weights, length: Tensor, routed: Routed, h: Tensor, shared_h: Tensor,
    *, launch: Launch = PLAIN,
) -> None:  # fmt: skip
    """As `moe.experts.up`, in bf16, from `routed.logits` alone: it chooses the experts itself, and
    leaves them in `routed.left`.

    length: [] int32; launched early, the kernel just before must not write it or x's squares.
    """
    i, s = w.down.shape[2], w.shared_down.shape[1]
    most = (s + routed.places * i) // 8
    kernel = _kernel("up", w, routed, config.rows_bytes(w.router.shape[1]))
    kernel.launch(
        (config.blocks(h.device, most, launch),),
        (*x, eps, w.gate_up, w.shared_gate_up, length, routed.logits, routed.left, h, shared_h),
        early=launch.early,
    )


def down(
    h: Tensor, shared_h: Tensor, w: Weights, length: Tensor, routed: Routed, x: Tensor, y: Tensor,
    after: Next, *, launch: Launch = PLAIN,
) -> None:  # fmt: skip
    """As `moe.experts.down`, in bf16, right after `up`. length: [] int32.
    Launched early, the kernel just before must not write it or x."""
    hidden = w.router.shape[1]
    kernel = _kernel("down", w, routed, 0)
    kernel.launch(
        (config.blocks(h.device, hidden // config.COLS, launch),),
        (h, shared_h, w.down, w.shared_down, length, routed.left, x, x.stride(0), y, y.stride(0),
         *after.pointers()), early=launch.early,
    )  # fmt: skip


def sizes(w: Weights, top: int, places: int) -> tuple[tuple[str, int], ...]:
    """The macros of `experts.cu`."""
    experts, hidden, i = w.down.shape
    return (("K", hidden), ("I", i), ("S", w.shared_down.shape[1]), ("E", experts), ("TOP", top),
            ("PLACES", places), ("DEEP", config.UP), ("MANY", config.DOWN))  # fmt: skip


def _kernel(name: str, w: Weights, routed: Routed, shared: int) -> cuda.Kernel:
    tensors = w._asdict()
    del tensors["router"]
    cuda.check(name, tensors, torch.bfloat16)
    macros = sizes(w, routed.ids.shape[1], routed.places)
    device = w.down.device.index
    return cuda.load(__package__, "experts.cu", name, macros, config.THREADS, device, shared)
