"""Calls of every kernel's wrapper on tensors without memory, at the sizes of real models."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hybridspec.kernels.gdn import exact
from hybridspec.kernels.gdn.config import GDNConfig
from hybridspec.kernels.linear import product
from hybridspec.kernels.moe import experts, naive

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


# hidden, value heads, dv, rows of the joint GDN projection, vocabulary
LINEAR = {
    "pair": (320, 8, 32, 784, 8192),
    "35b": (2048, 32, 128, 12352, 248320),
    "122b": (3072, 64, 128, 20608, 248320),
}


def linear(hidden: int, heads: int, size: int, joint: int, vocabulary: int) -> None:
    half = torch.bfloat16
    x, factor = empty(16, hidden, dtype=half), empty(hidden)
    for rows in (joint, vocabulary):
        w, y = empty(rows, hidden, dtype=half), empty(16, rows, dtype=half)
        product.norm_product(x, factor, 1e-6, w, y)
        product.product(x, w, y)
    o, gate, w = empty(16, heads, size), empty(16, joint, dtype=half), empty(hidden, heads * size)
    product.gated_product(o, gate, empty(size), 1e-6, w.to(half), x, x)


# hidden, experts, experts a token, their width, the shared expert's
MOE = {
    "pair": (320, 32, 4, 16, 192),
    "35b": (2048, 256, 8, 512, 512),
    "122b": (3072, 256, 8, 1024, 1024),
}


def moe(hidden: int, count: int, top: int, width: int, shared: int) -> None:
    half = torch.bfloat16
    x = empty(16, hidden, dtype=half)
    w = naive.Weights(
        empty(hidden),
        *(
            empty(*shape, dtype=half)
            for shape in [
                (count, hidden),
                (count, 2 * width, hidden),
                (count, hidden, width),
                (2 * shared, hidden),
                (hidden, shared),
                (hidden,),
            ]
        ),
    )
    routed = experts.Routed.empty(count, top, "meta")
    h, shared_h = empty(16 * top, 16, width, dtype=half), empty(16, shared, dtype=half)
    experts.route(empty(16, count), empty(dtype=torch.int32), routed)
    experts.up(x, w, 1e-6, routed, h, shared_h)
    experts.down(h, shared_h, w, routed, x, x)


CALLS: dict[str, Callable[[], None]] = {
    **{f"gdn exact {name}": lambda shape=shape: gdn_exact(*shape) for name, shape in GDN.items()},
    **{f"linear {name}": lambda shape=shape: linear(*shape) for name, shape in LINEAR.items()},
    **{f"moe {name}": lambda shape=shape: moe(*shape) for name, shape in MOE.items()},
}
# A state of 64 KiB in the registers of one warp: it must spill, or the reports say nothing.
CONTROL = {"control": lambda: gdn_exact(*GDN["35b"], GDNConfig(128, 1))}
