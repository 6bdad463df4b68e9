"""The drafter's passes over one sequence: `extend`, four launches at most; `propose`, six a layer
and three.

The order is that of `model/drafter.py`, the law. All lengths are data on the device, so one
recording of a pass serves every length. Nothing here allocates or waits for the device.
"""

from __future__ import annotations

from torch import Tensor

from hybridspec.kernels.attention.config import Sight
from hybridspec.kernels.attention.forms import Form, attention
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.forward.drafter_buffers import DrafterBuffers
from hybridspec.kernels.forward.drafter_weights import DrafterWeights, DraftLayer
from hybridspec.kernels.forward.products import Products
from hybridspec.kernels.head.head import head
from hybridspec.kernels.linear.norm import Next, embed
from hybridspec.model.drafter import Drafter
from hybridspec.runtime.drafter_state import DrafterSlot

FORM = Form.JOINED  # how a layer's attention is launched


class DrafterPass:
    """Launches of one drafter over one slot. `buffers.tokens`, `features` and `lengths` go in;
    the slot's caches and `buffers.answer` come out, with draft i in row i. The kernel just before
    `extend` must not write the lengths."""

    def __init__(
        self, drafter: Drafter, weights: DrafterWeights, slot: DrafterSlot,
        buffers: DrafterBuffers, *, early: bool,
    ) -> None:  # fmt: skip
        """early: launch as in `kernels/early.py`."""
        self.weights, self.slot, self.buffers, self.early = weights, slot, buffers, early
        self.tables = Tables(drafter.rope.cos, drafter.rope.sin)
        self.eps = drafter.config.rms_norm_eps
        self.products = Products(buffers.normed, buffers.space, self.eps, early=early)
        self.caches = list(slot.layers(drafter.sliding))
        ring = Sight(
            drafter.config.is_causal is not False, drafter.config.sliding_window or 0, ring=True
        )
        whole = Sight(drafter.causal)
        self.sights = [ring if sliding else whole for sliding in drafter.sliding]

    def extend(self) -> None:
        """Features of the added tokens become the context's next keys and values."""
        b, c = self.buffers, self.weights.context
        after = Next(c.norm, b.normed)
        self.products.added("out", b.features, c.fc, b.x, b.nothing, after, b.lengths.added)
        self.products.normed("joint", c.w, b.kv, b.lengths.added)
        first = self._add(b.kv, self.slot.ring, c.ring, ring=True)
        self._add(b.kv[:, first:], self.slot.full, c.whole, ring=False)

    def propose(self, *, scored: bool) -> None:
        """The whole block, from its embedding to its tokens."""
        b, w = self.buffers, self.weights
        embed(b.tokens, w.embedding, b.x, self._next(0), early=self.early)
        for i, layer in enumerate(w.layers):
            self._attend(i, layer)
            self.products.up(layer.gate_up, b.inner, b.lengths.block)
            self.products.added(
                "down", b.inner, layer.down, b.x, b.x, self._next(i + 1), b.lengths.block
            )
        head(b.normed, self.eps, w.head, b.tiles, b.answer, anchor=b.tokens[:1], scored=scored,
             early=self.early)  # fmt: skip

    def _attend(self, i: int, layer: DraftLayer) -> None:
        """A layer's attention on top of the stream; the block's keys are beyond the context's."""
        b, sight, (keys, values) = self.buffers, self.sights[i], self.caches[i]
        position, block = b.lengths.position, b.lengths.block
        self.products.normed("joint", layer.w_in, b.qkv, block)
        attention(b.qkv, layer.qk, self.tables, keys, values, position, block, b.q, b.attended,
                  b.space, sight=sight, form=FORM, early=self.early)  # fmt: skip
        after = Next(layer.before_mlp, b.normed)
        self.products.added("out", b.attended, layer.w_out, b.x, b.x, after, block)

    def _add(self, kv: Tensor, cache: Tensor, norms: Norms, *, ring: bool) -> int:
        """Keys and values of all layers of one kind into their cache [2, layers, KV, rows, D];
        columns of kv that they take."""
        if not cache.shape[1]:
            return 0
        lengths = self.buffers.lengths
        prepare(kv, norms, self.tables, *cache, lengths.held, lengths.added, None, ring=ring,
                early=self.early)  # fmt: skip
        return 2 * cache.shape[1] * cache.shape[2] * cache.shape[4]

    def _next(self, i: int) -> Next:
        """The norm before layer i, or the last one."""
        layers = self.weights.layers
        factor = layers[i].before_mixer if i < len(layers) else self.weights.norm
        return Next(factor, self.buffers.normed)
