"""Calls of every kernel's wrapper on tensors without memory, at the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hybridspec.kernels.gdn import exact
from hybridspec.kernels.gdn.config import GDNConfig

# key heads, value heads, dk, dv
GDN = {"pair": (4, 8, 32, 32), "35b": (16, 32, 128, 128), "122b": (16, 64, 128, 128)}


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def gdn_exact(
    key_heads: int, value_heads: int, dk: int, dv: int, config: GDNConfig | None = None
) -> None:
    q, k = empty(16, key_heads, dk), empty(16, key_heads, dk)
    v, o, z = (empty(16, value_heads, dv) for _ in range(3))
    beta, alpha = empty(16, value_heads), empty(16, value_heads)
    state, length = empty(30, value_heads, dv, dk), empty(dtype=torch.int32)
    exact.verify(q, k, v, beta, alpha, state[0], o, z, length, config)
    exact.commit(state, *(t.expand(30, *t.shape) for t in (z, k, alpha)), length)


CALLS: dict[str, Callable[[], None]] = {
    f"gdn exact {name}": lambda shape=shape: gdn_exact(*shape) for name, shape in GDN.items()
}
# A state of 64 KiB in the registers of one warp: it must spill, or the reports say nothing.
CONTROL = {"control": lambda: gdn_exact(*GDN["35b"], GDNConfig(128, 1))}
