"""All memory of a run, allocated once: KV, convolution columns, GDN states, compact factors.

A slot is one sequence. Its committed length is P: positions 0..P-1 are in the state, the anchor is
not. Verification writes ahead (KV rows P.., convolution columns 3.., factors) and `commit` keeps m
inputs of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hybridspec.kernels.gdn import naive
from hybridspec.model.config import DrafterConfig, TargetConfig
from hybridspec.model.gdn import GDNBuffers, Verifier
from hybridspec.model.layers import wide

W = 16  # most target inputs of one verification; also the spare rows behind every cache
COMMIT = {"block": naive.commit, "exact": naive.replay}


@dataclass(slots=True)
class TargetSlot:
    """One sequence's views into a `TargetState`. `length` is P; `tap_layers` are a drafter's.

    `routes`, when a list, takes the experts [T, k] of every whole layer that runs, in order: for
    calibration. (Layer 0 of a split pass has its own in `Stage0`.)

    gdn [Lg, VH, dv, dk], conv [Lg, 3 + W, C], keys and values [La, KV, capacity + W, D],
    z [Lg, W, VH, dv], k [Lg, W, KH, dk], g [Lg, W, VH]; Lg and La count GDN and attention layers.
    """

    gdn: Tensor
    conv: Tensor
    keys: Tensor
    values: Tensor
    z: Tensor
    k: Tensor
    g: Tensor
    length: int = 0
    tap_layers: tuple[int, ...] = ()
    routes: list[Tensor] | None = None
    layers: list[GDNBuffers] = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.gdn, self.conv, self.z, self.k, self.g)
        self.layers = [GDNBuffers(*views) for views in zip(*parts, strict=True)]

    def layer(self, index: int) -> GDNBuffers:
        """The buffers of the index-th GDN layer."""
        return self.layers[index]

    def commit(self, m: int, verifier: Verifier) -> None:
        """Keep the first m inputs of the last verification, in all layers at once (equation 7)."""
        history = self.conv.shape[1] - W
        self.gdn.copy_(COMMIT[verifier](self.gdn, self.z[:, :m], self.k[:, :m], self.g[:, :m]))
        self.conv[:, :history] = self.conv[:, m : m + history].clone()
        self.length += m

    def reset(self) -> None:
        """Forget the sequence. KV rows need no clearing: nothing reads past `length`."""
        self.gdn.zero_()
        self.conv.zero_()
        self.length = 0


class TargetState:
    """The target's memory for `slots` sequences of up to `capacity` tokens."""

    def __init__(
        self,
        config: TargetConfig,
        capacity: int,
        *,
        slots: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        linear, full = len(config.linear_layers), len(config.full_layers)
        heads, dk = config.linear_num_value_heads, config.linear_key_head_dim
        dv, history = config.linear_value_head_dim, config.linear_conv_kernel_dim - 1
        kv = (full, slots, config.num_key_value_heads, capacity + W, config.head_dim)

        def zeros(*shape: int, of: torch.dtype | None = None) -> Tensor:
            return torch.zeros(*shape, device=device, dtype=of or wide(dtype))

        self.capacity = capacity
        self.gdn = zeros(linear, slots, heads, dv, dk)
        self.conv = zeros(linear, slots, history + W, config.conv_dim, of=dtype)
        self.keys, self.values = zeros(*kv, of=dtype), zeros(*kv, of=dtype)
        self.z = zeros(linear, slots, W, heads, dv)
        self.k = zeros(linear, slots, W, config.linear_num_key_heads, dk)
        self.g = zeros(linear, slots, W, heads)

    def tensors(self) -> dict[str, Tensor]:
        """Every buffer by name, slot dimension second."""
        names = ("gdn", "conv", "keys", "values", "z", "k", "g")
        return {name: getattr(self, name) for name in names}

    def slot(self, index: int = 0, tap_layers: tuple[int, ...] = ()) -> TargetSlot:
        """A fresh handle on slot `index`, its sequence forgotten.

        `tap_layers`: the layers (0-based) whose residuals every pass returns as features.
        """
        views = {name: t[:, index] for name, t in self.tensors().items()}
        slot = TargetSlot(**views, tap_layers=tap_layers)  # type: ignore[arg-type]
        slot.reset()
        return slot

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(t.nbytes for t in self.tensors().values())


@dataclass(slots=True)
class DrafterSlot:
    """One sequence's context keys and values in the drafter. `length` is P.

    full [2, Lf, KV, capacity + B, D]; ring [2, Ls, KV, R, D] with R = min(window, capacity) + B
    rows for blocks of B, position p in row p mod R. The first dimension is keys, values.
    """

    full: Tensor
    ring: Tensor
    length: int = 0

    def layers(self, sliding: Sequence[bool]) -> Iterator[tuple[Tensor, Tensor]]:
        """Keys and values [KV, rows, D] of each layer, in order."""
        rings, wholes = (zip(*cache, strict=True) for cache in (self.ring, self.full))
        return (next(rings if ringed else wholes) for ringed in sliding)


class DrafterState:
    """The drafter's memory: full layers keep all, sliding layers a ring of window + block."""

    def __init__(
        self,
        config: DrafterConfig,
        capacity: int,
        *,
        slots: int = 1,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        sliding = sum(t == "sliding_attention" for t in config.layer_types)
        window = min(config.sliding_window or capacity, capacity)
        kv, size = config.num_key_value_heads, config.head_dim

        def zeros(layers: int, rows: int) -> Tensor:
            return torch.zeros(2, layers, slots, kv, rows, size, device=device, dtype=dtype)

        self.capacity = capacity
        self.full = zeros(config.num_hidden_layers - sliding, capacity + config.block_size)
        self.ring = zeros(sliding, window + config.block_size)

    def slot(self, index: int = 0) -> DrafterSlot:
        """A fresh handle on slot `index`. Rows need no clearing: nothing unwritten is visible."""
        return DrafterSlot(self.full[:, :, index], self.ring[:, :, index])

    @property
    def nbytes(self) -> int:
        """Bytes of both caches."""
        return self.full.nbytes + self.ring.nbytes
