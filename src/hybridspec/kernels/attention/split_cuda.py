"""`attend` and `combine` in CUDA C++ for the target's attention, where warpgroups multiply.

A row's cache is cut by the row's own position into about as many splits as there are
multiprocessors (`step_of` in `parts.cuh`): one wave of work, and room for few parts. Neither bits
nor the order of parts in the workspace are those of `split.py`: whatever reads a sequence goes
through one of the two.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from hybridspec.kernels import cuda
from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear.config import ROWS

SIZE, TILE, KEYS, PLACES, THREADS = 256, 64, 64, 3, 256  # as in the sources
BYTES = (1 + PLACES) * 2 * KEYS * SIZE + 16 * PLACES + 2032  # struct Shared, wherever it begins


def serves(heads: int, kv: int, size: int, dtype: torch.dtype, device: torch.device) -> bool:
    """Whether the kernels take these sizes there: heads of 256 values in bf16, 8 or 16 of which
    share a key head, on compute capability 9.0."""
    return (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device)[0] == 9
        and (size, dtype) == (SIZE, torch.bfloat16)
        and _shared(heads, kv)
    )


def _shared(heads: int, kv: int) -> bool:
    return heads in (8 * kv, 16 * kv)


def most(kv: int, device: torch.device) -> int:
    """Splits of a row's cache, so that those of all key heads fill the device once."""
    return max(1, torch.cuda.get_device_properties(device).multi_processor_count // kv)


def room(heads: int, kv: int, device: torch.device) -> int:
    """Floats of the workspace, however long the cache."""
    return ROWS * heads * (most(kv, device) + 1) * (SIZE + 2)


def defines(heads: int, kv: int, most: int) -> tuple[tuple[str, int], ...]:
    """The macros of the sources."""
    return (("KV", kv), ("SHARED", heads // kv), ("MOST", most))


def attend(
    q: Tensor, keys: Tensor, values: Tensor, position: Tensor, length: Tensor,
    workspace: Workspace, *, early: bool = False,
) -> None:  # fmt: skip
    """As `split.attend` without `out`, of rows that see all positions up to their own.

    Args:
        q: [16, H, 256] bf16. keys, values: [KV, rows, 256] bf16, alike.
        position, length: [] int32 on the device, P and w from 1 to 16.
        workspace: of at least `room`.
        early: as in `cuda.Kernel.launch`; the kernel just before may write q and the rows P to
            P + w - 1 of the cache, and nothing else of these.

    Raises:
        KernelError: tensors that the kernel would misread.
    """
    cuda.check("attend", {"q": q}, torch.bfloat16)
    cuda.check("attend", {"keys": keys, "values": values}, torch.bfloat16, apart=True)
    heads, kv = q.shape[1], keys.shape[0]
    like = (keys.shape, keys.stride()) == (values.shape, values.stride())
    if not like or {q.shape[2], keys.shape[2]} != {SIZE}:
        raise cuda.KernelError(
            f"The kernel attend has q {tuple(q.shape)}, keys {tuple(keys.shape)} and values "
            f"{tuple(values.shape)}; expected heads of {SIZE}, keys and values that lie alike."
        )
    _check_rows("attend", q, heads, kv)
    kernel = _load("split.cu", "attend", heads, kv, q.device, BYTES)
    blocks = torch.cuda.get_device_properties(q.device).multi_processor_count
    parts = _parts(workspace, heads, kv, q.device)
    scale, apart = SIZE**-0.5 * math.log2(math.e), cuda.Wide(keys.stride(0))
    arguments = (q, keys, values, position, length, *parts, scale, apart)
    kernel.launch((blocks,), arguments, early=early)


def combine(
    gate: Tensor, kv: int, position: Tensor, length: Tensor, out: Tensor, workspace: Workspace, *,
    early: bool = False,
) -> None:  # fmt: skip
    """As `combine.combine`, of the parts that `attend` has left.

    Args:
        gate: [16, R] bf16, as in `split.attend`. out: [16, H 256] bf16. kv: key heads.
        early: as in `cuda.Kernel.launch`; the kernel just before may write the workspace alone.

    Raises:
        KernelError: tensors that the kernel would misread.
    """
    cuda.check("combine", {"gate": gate}, torch.bfloat16, aligned=4, apart=True)
    cuda.check("combine", {"out": out}, torch.bfloat16)
    heads = out.shape[1] // SIZE
    _check_rows("combine", out, heads, kv)
    kernel = _load("combine.cu", "combine", heads, kv, out.device, 0)
    parts = _parts(workspace, heads, kv, out.device)
    arguments = (*parts, gate, gate.stride(0), position, length, out)
    kernel.launch((SIZE // 16, ROWS * heads // 8), arguments, early=early)


def _check_rows(kernel: str, rows: Tensor, heads: int, kv: int) -> None:
    if len(rows) < ROWS or not _shared(heads, kv):
        raise cuda.KernelError(
            f"The kernel {kernel} has {len(rows)} rows of {heads} heads over {kv} key heads; "
            f"expected {ROWS} rows and 8 or 16 heads a key head."
        )


def _load(
    file: str, name: str, heads: int, kv: int, device: torch.device, shared: int
) -> cuda.Kernel:
    sizes = defines(heads, kv, most(kv, device))
    return cuda.load(__package__, file, name, sizes, THREADS, device.index, shared)


def _parts(
    workspace: Workspace, heads: int, kv: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Sums, and behind them maxima and totals."""
    workspace.check(room(heads, kv, device), 0)
    return workspace.parts, workspace.parts[ROWS * heads * (most(kv, device) + 1) * SIZE :]
