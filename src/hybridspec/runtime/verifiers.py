"""Memory that one GDN verifier alone needs, allocated when it is first used and then kept.

`per-token` stores the state after every token of a verification. `replay` keeps the factors of
committed tokens beside a checkpoint of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.gdn.naive import Factors


class VerifierMemory:
    """The buffers for all layers and slots of a `TargetState`, made from its common ones.

    states [Lg, slots, W, VH, dv, dk]; ring of z [Lg, slots, R, VH, dv], k [Lg, slots, R, KH, dk],
    g [Lg, slots, R, VH]. Nothing is allocated before the first call of `states` or `ring`.
    """

    def __init__(self, state: Tensor, factors: Factors, ring_rows: int) -> None:
        """state [Lg, slots, VH, dv, dk]; factors with W rows in their third dimension."""
        self._state, self._factors, self._ring_rows = state, factors, ring_rows
        self._made: dict[str, Tensor] = {}

    def states(self) -> Tensor:
        """The states of `per-token`."""
        return self._once("states", self._state.unsqueeze(2), self._factors.g.shape[2])

    def ring(self) -> Factors:
        """The ring of `replay`."""
        parts = self._factors._asdict().items()
        return Factors(*(self._once(f"ring {name}", like, self._ring_rows) for name, like in parts))

    def tensors(self) -> dict[str, Tensor]:
        """Every buffer allocated so far by name, slot dimension second."""
        return dict(self._made)

    def _once(self, name: str, like: Tensor, rows: int) -> Tensor:
        """The buffer of that name: as `like` [Lg, slots, _, ...] with `rows` rows."""
        if name not in self._made:
            with torch.inference_mode(False):  # made inside a pass, but read outside of one too
                zeros = like.new_zeros(*like.shape[:2], rows, *like.shape[3:])
            self._made[name] = zeros
        return self._made[name]
