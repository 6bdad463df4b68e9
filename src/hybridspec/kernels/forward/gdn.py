"""Which form of the GDN kernels a pass uses, and the memory that they share with a slot.

A class a verifier: its verification of a layer, its commit of all layers, and what must be known on
the host around a pass. All but `block` have the bits of `exact`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from hybridspec.kernels.gdn import baselines, block, exact, fused
from hybridspec.kernels.gdn.baselines import ROWS, Ring, W
from hybridspec.kernels.gdn.columns import Spread
from hybridspec.kernels.gdn.fused import Gates
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import Verifier
from hybridspec.runtime.state import TargetSlot

TINY = torch.finfo(torch.float32).tiny  # below it a decay is 0, whose logarithm no sum survives


def blocks(c: TargetConfig, device_type: str, dtype: torch.dtype) -> int:
    """Parts of a head's sum of squares in the form used on that device."""
    if in_cuda(c, device_type, dtype):
        from hybridspec.kernels.gdn import exact_cuda

        return exact_cuda.blocks(c.linear_value_head_dim)
    return fused.blocks(c.linear_value_head_dim)


def in_cuda(c: TargetConfig, device_type: str, dtype: torch.dtype) -> bool:
    """Whether the form in CUDA C++ serves this model there."""
    if device_type != "cuda" or dtype not in (torch.float32, torch.bfloat16):
        return False
    from hybridspec.kernels.gdn import exact_cuda

    row = c.conv_dim + c.value_dim + 2 * c.linear_num_value_heads
    return exact_cuda.serves_fused(c.linear_key_head_dim, c.linear_value_head_dim, row)


def recurrence(
    config: TargetConfig, slot: TargetSlot, verifier: Verifier, *, early: bool
) -> Recurrence:
    """That of a verifier."""
    return BY_VERIFIER[verifier](config, slot, early=early)


class Recurrence:
    """`exact` verification and commit of one slot. joint: [Lg, 16, R], the rows that a layer's
    joint projection writes."""

    def __init__(self, config: TargetConfig, slot: TargetSlot, *, early: bool) -> None:
        """Verification and commit are of one implementation: they share their bits."""
        assert slot.raw is not None
        assert slot.alpha is not None
        self.slot, self.raw, self.alpha = slot, slot.raw, slot.alpha
        self.channels, self.early = config.conv_dim, early
        self.joint = self.raw[:, config.linear_conv_kernel_dim - 1 :]
        self.cuda = in_cuda(config, slot.raw.device.type, slot.raw.dtype)

    def begin(self, slot: TargetSlot) -> None:
        """Before a pass, on the host; slot: the sequence in this memory, by any handle. Its state
        becomes that of all committed tokens."""
        slot.fold()

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """`length` tokens of the GDN layer at `place`; shapes as `gdn/fused.py`."""
        verify, _, _ = self._kernels()
        slot = self.slot
        verify(*self._layer(place, gates, gated, squares), slot.z[place], slot.k[place],
               self.alpha[place], length, **self.options)  # fmt: skip

    def commit(self, kept: Tensor) -> None:
        """All layers: states, then convolution columns."""
        self._advance(kept)
        fused.advance(self.raw, self.channels, kept)

    def committed(self, slot: TargetSlot, m: int) -> None:
        """After a commit of m tokens, on the host."""

    @property
    def options(self) -> dict[str, bool]:
        """Keywords of this implementation's launches."""
        return {"early": self.early} if self.cuda else {}

    def _advance(self, kept: Tensor) -> None:
        _, commit, _ = self._kernels()
        slot = self.slot
        commit(slot.checkpoint, slot.z, slot.k, self.alpha, kept, **self.options)

    def _layer(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor
    ) -> tuple[Tensor | Gates, ...]:
        """The arguments that all verifications begin with."""
        return self.raw[place], gates, self.slot.checkpoint[place], gated, squares

    def _kernels(self) -> tuple[Callable[..., None], Callable[..., None], ModuleType]:
        """Verification, commit and the baselines' kernels of one implementation."""
        if not self.cuda:
            return fused.verify, exact.commit, baselines
        from hybridspec.kernels.gdn import baselines_cuda, exact_cuda

        return exact_cuda.fused, exact_cuda.commit, baselines_cuda


class PerToken(Recurrence):
    """`per-token`: the state after every token is stored, and the m-th copied."""

    def __init__(self, config: TargetConfig, slot: TargetSlot, *, early: bool) -> None:
        super().__init__(config, slot, early=early)
        self.states = slot.memory.states()[:, slot.index]

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """As `Recurrence.verify`."""
        _, _, kernels = self._kernels()
        kernels.per_token_fused(*self._layer(place, gates, gated, squares), self.states[place],
                                length, **self.options)  # fmt: skip

    def _advance(self, kept: Tensor) -> None:
        _, _, kernels = self._kernels()
        kernels.per_token_commit(self.slot.checkpoint, self.states, kept, **self.options)


class Replay(Recurrence):
    """`replay`: the state lags, and a ring holds the factors since.

    The ring is the slot's but for the decays, of which the kernels take alpha and others take g: a
    commit leaves both. `pending` is on the device what `slot.pending` is on the host.
    """

    def __init__(self, config: TargetConfig, slot: TargetSlot, *, early: bool) -> None:
        super().__init__(config, slot, early=early)
        z, k, self.g = (t[:, slot.index] for t in slot.memory.ring())
        self.ring = Ring(z, k, torch.zeros_like(self.g, memory_format=torch.contiguous_format))
        self.pending, self.scratch = torch.zeros(2, dtype=torch.int32, device=slot.raw.device)
        self.held = 0  # tokens that kernels left pending

    def begin(self, slot: TargetSlot) -> None:
        """Before a pass, on the host. What others left pending is folded, for `ring` lacks it."""
        if slot.pending != self.held:
            slot.fold()
        self.pending.fill_(slot.pending)

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """As `Recurrence.verify`."""
        _, _, kernels = self._kernels()
        kernels.replay_fused(
            *self._layer(place, gates, gated, squares), self.ring.layer(place), self.pending,
            length, **self.options,
        )  # fmt: skip

    def committed(self, slot: TargetSlot, m: int) -> None:
        """After a commit of m tokens, on the host: as the kernel decides."""
        pending = slot.pending + m
        slot.pending = self.held = pending if ROWS - pending >= W else 0

    def _advance(self, kept: Tensor) -> None:
        _, _, kernels = self._kernels()
        kernels.replay_commit(self.slot.checkpoint, self.ring, self.pending, self.scratch, kept,
                              **self.options)  # fmt: skip
        torch.clamp(self.ring.alpha, min=TINY, out=self.g).log_()


class Block(Recurrence):
    """`block`: all tokens of a layer at once, from q, k and v; the commit is that of `exact`."""

    def __init__(self, config: TargetConfig, slot: TargetSlot, *, early: bool) -> None:
        super().__init__(config, slot, early=early)
        _, value_heads, dv, dk = slot.checkpoint.shape
        self.room = Spread.empty(slot.k.shape[2], value_heads, dk, dv, slot.k.device)

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """As `Recurrence.verify`."""
        slot = self.slot
        block.fused(
            *self._layer(place, gates, gated, squares), slot.z[place], slot.k[place],
            slot.g[place], self.alpha[place], length, self.room,
        )  # fmt: skip


BY_VERIFIER: dict[Verifier, type[Recurrence]] = {
    "exact": Recurrence, "per-token": PerToken, "replay": Replay, "block": Block,
}  # fmt: skip
