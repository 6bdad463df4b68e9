"""The drafter's memory: keys and values of its context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.model.config import DrafterConfig


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
