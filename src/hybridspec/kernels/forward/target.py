"""The target's passes over one sequence: six launches a GDN layer and seven an attention layer,
and one more for the choice of experts where these do not stream.

The order is that of `model/target.py`, the law. All lengths are data on the device, so one
recording of a pass serves every length. Nothing here allocates or waits for the device.
"""

from __future__ import annotations

from torch import Tensor

from hybridspec.kernels.attention.prepare import Tables
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import recurrence
from hybridspec.kernels.forward.steps import Steps
from hybridspec.kernels.forward.weights import LayerWeights, TargetWeights
from hybridspec.kernels.linear.norm import Next, embed
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot


class TargetPass:
    """Launches of one target over one slot. `buffers.tokens` and `buffers.lengths` go in;
    `buffers.logits`, `buffers.features` and `buffers.routed` come out."""

    def __init__(
        self, target: Target, weights: TargetWeights, slot: TargetSlot, buffers: Buffers, *,
        early: bool, verifier: Verifier = "exact",
    ) -> None:  # fmt: skip
        """early: launch as in `kernels/early.py`. The slot must have joint columns."""
        self.weights, self.slot, self.buffers, self.early = weights, slot, buffers, early
        self.config, self.tables = target.config, Tables(target.rope.cos, target.rope.sin)
        self.steps = Steps(buffers, target.config.rms_norm_eps, early=early)
        self.recurrence = recurrence(target.config, slot, verifier, early=early)
        self.places = [layer.place for layer in target.layers]
        self.taps = {layer: i for i, layer in enumerate(slot.tap_layers)}

    def stage0(self) -> None:
        """tokens [u] through layer 0's router and no further."""
        u = self.buffers.lengths.looked
        self._mix(0, self._embed(), u)
        self._route(0, u)
        self.steps.show_choice(self.weights.layers[0].experts, u)

    def stage1(self) -> None:
        """The first w tokens of Stage 0, from layer 0's experts to the logits."""
        w = self.buffers.lengths.verified
        self.steps.choose_again(self.weights.layers[0].experts, w)
        self._rest()

    def unsplit(self) -> None:
        """The verification of w tokens without the cut."""
        w = self.buffers.lengths.verified
        self._mix(0, self._embed(), w)
        self._route(0, w)
        self._rest()

    def commit(self) -> None:
        """Keep the first m tokens: GDN states of all layers and convolution columns."""
        self.recurrence.commit(self.buffers.lengths.kept)

    def _embed(self) -> Tensor:
        b, first = self.buffers, self.weights.layers[0]
        embed(b.tokens, self.weights.embedding, b.x, self._next(first.before_mixer),
              early=self.early)  # fmt: skip
        return b.x

    def _rest(self) -> None:
        """From layer 0's experts on."""
        b, w = self.buffers, self.buffers.lengths.verified
        x = self._experts(0, b.x, w)
        for i in range(1, len(self.weights.layers)):
            self._mix(i, x, w)
            self._route(i, w)
            x = self._experts(i, b.x, w)
        self.steps.normed("head", self.weights.head, b.logits, w)

    def _mix(self, i: int, x: Tensor, length: Tensor) -> None:
        """The mixer on top of x into `buffers.x`."""
        layer = self.weights.layers[i]
        if layer.gates is not None:
            self._recur(i, layer, x, length)
        else:
            self._attend(i, layer, x, length)

    def _recur(self, i: int, layer: LayerWeights, x: Tensor, length: Tensor) -> None:
        b, place = self.buffers, self.places[i]
        assert layer.gates is not None
        self.steps.normed("joint", layer.w_in, self.recurrence.joint[place], length)
        self.recurrence.verify(place, layer.gates, b.gated, b.squares, length)
        self.steps.gated(layer.w_out, x, self._next(layer.before_experts), length)

    def _attend(self, i: int, layer: LayerWeights, x: Tensor, length: Tensor) -> None:
        keys, values = (t[self.places[i]] for t in (self.slot.keys, self.slot.values))
        assert layer.qk is not None
        self.steps.normed("joint", layer.w_in, self.buffers.qkv, length)
        self.steps.attend(layer.qk, self.tables, keys, values, length)
        self.steps.attended(layer.w_out, x, self._next(layer.before_experts), length)

    def _route(self, i: int, length: Tensor) -> None:
        self.steps.route(self.weights.layers[i].experts, length)

    def _experts(self, i: int, x: Tensor, length: Tensor) -> Tensor:
        """The experts on top of x; where they leave it, a tapped layer's place or `buffers.x`."""
        layers = self.weights.layers
        factor = self.weights.norm if i + 1 == len(layers) else layers[i + 1].before_mixer
        y = self._tapped(i)
        self.steps.experts(layers[i].experts, x, y, self._next(factor), length)
        return y

    def _tapped(self, i: int) -> Tensor:
        if i not in self.taps:
            return self.buffers.x
        k = self.config.hidden_size
        return self.buffers.features[:, self.taps[i] * k :][:, :k]

    def _next(self, factor: Tensor) -> Next:
        return Next(factor, self.buffers.normed)
