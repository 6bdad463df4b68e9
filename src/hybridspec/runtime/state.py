"""The target's memory, allocated once: KV, convolution columns, GDN states, compact factors.

A slot is one sequence. Its committed length is P: positions 0..P-1 are in the state, the anchor is
not. Verification writes ahead (KV rows P.., convolution columns 3.., factors) and `commit` keeps m
inputs of it.

Under the verifier `replay` the GDN states lag: `checkpoint` is the state of an earlier position,
and a ring holds the factors of the `pending` tokens since. Nobody else has to know:
`TargetSlot.gdn` reads as the states of all P tokens at any time, and a pass of another kind (a
prefill, another verifier) asks for its buffers by `layer`, which first folds the ring into the
checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hybridspec.kernels.gdn import naive
from hybridspec.model.config import TargetConfig
from hybridspec.model.gdn import GDNBuffers, Verifier
from hybridspec.model.layers import wide
from hybridspec.runtime.drafter_state import DrafterSlot as DrafterSlot  # others know both from
from hybridspec.runtime.drafter_state import DrafterState as DrafterState  # here
from hybridspec.runtime.verifiers import VerifierMemory

W = 16  # most target inputs of one verification; also the spare rows behind every cache
RING = 2 * W  # rows of the ring of `replay`, which is emptied when fewer than W are free
COMMIT = {"block": naive.commit, "exact": naive.retrace}


@dataclass(slots=True)
class TargetSlot:
    """One sequence's views into a `TargetState`. `length` is P; `tap_layers` are a drafter's.

    `routes`, when a list, takes the experts [T, k] of every whole layer that runs, in order: for
    calibration. (Layer 0 of a split pass has its own in `Stage0`.)

    checkpoint [Lg, VH, dv, dk], conv [Lg, 3 + W, C], keys and values [La, KV, capacity + W, D],
    z [Lg, W, VH, dv], k [Lg, W, KH, dk], g [Lg, W, VH]; Lg and La count GDN and attention layers.
    `memory` is what single verifiers need, `index` this slot's place in it.
    raw [Lg, 3 + W, R] and alpha [Lg, W, VH] are what the kernels alone need: whole rows of the
    joint projection, of which `conv` is the first C columns, and decays, not their logarithms g.
    """

    checkpoint: Tensor
    conv: Tensor
    keys: Tensor
    values: Tensor
    z: Tensor
    k: Tensor
    g: Tensor
    memory: VerifierMemory
    index: int = 0
    raw: Tensor | None = None
    alpha: Tensor | None = None
    length: int = 0
    pending: int = 0
    tap_layers: tuple[int, ...] = ()
    routes: list[Tensor] | None = None
    buffers: dict[tuple[Verifier | None, int], list[GDNBuffers]] = field(
        init=False, default_factory=dict
    )

    @property
    def gdn(self) -> Tensor:
        """The GDN states of all P tokens [Lg, VH, dv, dk]; a new tensor while tokens are pending.

        Reading moves nothing, so it may be done between a verification and its commit.
        """
        if not self.pending:
            return self.checkpoint
        return naive.commit(self.checkpoint, *self._ring(0, self.pending))

    def layer(self, index: int, verifier: Verifier | None = None) -> GDNBuffers:
        """The buffers of the index-th GDN layer for a pass of `verifier`; None is a prefill."""
        if self.pending and verifier != "replay":
            self.fold()
        key = (verifier, self.pending)
        if key not in self.buffers:
            self.buffers[key] = self._layers(verifier)
        return self.buffers[key][index]

    def commit(self, m: int, verifier: Verifier) -> None:
        """Keep the first m inputs of the last verification, which was one of `verifier`."""
        self._advance(m, verifier)
        history = self.conv.shape[1] - W
        self.conv[:, :history] = self.conv[:, m : m + history].clone()
        self.length += m

    def fold(self) -> None:
        """Bring the checkpoint up to the P committed tokens and empty the ring (a flush)."""
        if self.pending:
            self.checkpoint.copy_(self.gdn)
            self.pending = 0

    def _advance(self, m: int, verifier: Verifier) -> None:
        """Move the GDN states by m tokens, in all layers at once (equation 7)."""
        if verifier == "replay":
            self.pending += m
            if RING - self.pending < W:
                self.fold()
        elif verifier == "per-token":
            self.checkpoint.copy_(self._states()[:, m - 1])
        else:
            kept = (t[:, :m] for t in (self.z, self.k, self.g))
            self.checkpoint.copy_(COMMIT[verifier](self.checkpoint, *kept))

    def _states(self) -> Tensor:
        """[Lg, W, VH, dv, dk], the states of `per-token`."""
        return self.memory.states()[:, self.index]

    def _ring(self, start: int, stop: int) -> naive.Factors:
        """Rows start..stop-1 of the ring, in all layers."""
        return naive.Factors(*(t[:, self.index, start:stop] for t in self.memory.ring()))

    def _layers(self, verifier: Verifier | None) -> list[GDNBuffers]:
        """The buffers of every layer while `pending` is what it is."""
        written = naive.Factors(self.z, self.k, self.g)
        if verifier == "replay":
            written = self._ring(self.pending, self.pending + W)
        layers = [
            GDNBuffers(*views) for views in zip(self.checkpoint, self.conv, *written, strict=True)
        ]
        if verifier == "per-token":
            layers = [b._replace(states=s) for b, s in zip(layers, self._states(), strict=True)]
        if self.pending:
            past = zip(*self._ring(0, self.pending), strict=True)
            layers = [b._replace(past=naive.Factors(*p)) for b, p in zip(layers, past, strict=True)]
        return layers

    def reset(self) -> None:
        """Forget the sequence. KV rows need no clearing: nothing reads past `length`."""
        self.checkpoint.zero_()
        self.conv.zero_()
        self.length = self.pending = 0


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
        joint: bool | None = None,
    ) -> None:
        """joint: with what the kernels need (see `TargetSlot`); by default on a GPU."""
        joint = torch.device(device).type == "cuda" if joint is None else joint
        linear, full = len(config.linear_layers), len(config.full_layers)
        heads, dk = config.linear_num_value_heads, config.linear_key_head_dim
        dv, history = config.linear_value_head_dim, config.linear_conv_kernel_dim - 1
        kv = (full, slots, config.num_key_value_heads, capacity + W, config.head_dim)

        def zeros(*shape: int, of: torch.dtype | None = None) -> Tensor:
            return torch.zeros(*shape, device=device, dtype=of or wide(dtype))

        self.capacity = capacity
        self.gdn = zeros(linear, slots, heads, dv, dk)
        row = config.conv_dim + (config.value_dim + 2 * heads if joint else 0)
        self.raw = zeros(linear, slots, history + W, row, of=dtype)
        self.conv = self.raw[..., : config.conv_dim]
        self.alpha = zeros(linear, slots, W, heads) if joint else None
        self.keys, self.values = zeros(*kv, of=dtype), zeros(*kv, of=dtype)
        self.z = zeros(linear, slots, W, heads, dv)
        self.k = zeros(linear, slots, W, config.linear_num_key_heads, dk)
        self.g = zeros(linear, slots, W, heads)
        self.verifiers = VerifierMemory(self.gdn, naive.Factors(self.z, self.k, self.g), RING)

    def tensors(self) -> dict[str, Tensor]:
        """Every buffer by name, slot dimension second; those of single verifiers once allocated."""
        return self._common() | self.verifiers.tensors()

    def slot(self, index: int = 0, tap_layers: tuple[int, ...] = ()) -> TargetSlot:
        """A fresh handle on slot `index`, its sequence forgotten.

        `tap_layers`: the layers (0-based) whose residuals every pass returns as features.
        """
        gdn, conv, keys, values, z, k, g = (t[:, index] for t in self._common().values())
        own = (self.verifiers, index)
        slot = TargetSlot(gdn, conv, keys, values, z, k, g, *own, tap_layers=tap_layers)
        if self.alpha is not None:
            slot.raw, slot.alpha = self.raw[:, index], self.alpha[:, index]
        slot.reset()
        return slot

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        joint = 0 if self.alpha is None else self.alpha.nbytes + self.raw.nbytes - self.conv.nbytes
        return sum(t.nbytes for t in self.tensors().values()) + joint

    def _common(self) -> dict[str, Tensor]:
        names = ("gdn", "conv", "keys", "values", "z", "k", "g")
        return {name: getattr(self, name) for name in names}
