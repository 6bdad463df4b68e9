"""The steps of a target's pass, each by the kernel that serves its size."""

from __future__ import annotations

from torch import Tensor

from hybridspec.kernels.attention.forms import attention
from hybridspec.kernels.attention.prepare import Norms, Tables
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.products import Products
from hybridspec.kernels.linear import product as general
from hybridspec.kernels.linear.norm import Next
from hybridspec.kernels.moe import experts as general_experts
from hybridspec.kernels.moe.naive import Weights
from hybridspec.kernels.moe.route import choose, route
from hybridspec.kernels.stream import dense
from hybridspec.kernels.stream import experts as streaming_experts


class Steps(Products):
    """Launches over one set of buffers; each reads what the one before it left there."""

    def __init__(self, buffers: Buffers, eps: float, *, early: bool) -> None:
        super().__init__(buffers.normed, buffers.space, eps, early=early)
        self.buffers = buffers

    def attend(
        self, qk: Norms, tables: Tables, keys: Tensor, values: Tensor, length: Tensor
    ) -> None:
        """An attention layer between its projections, over a cache [KV, rows, D] twice."""
        b = self.buffers
        attention(b.qkv, qk, tables, keys, values, b.lengths.position, length, b.q, b.attended,
                  b.space, gated=True, form=b.form, early=self.early)  # fmt: skip

    def attended(self, w: Tensor, x: Tensor, after: Next, length: Tensor) -> None:
        """The end of an attention layer on top of x."""
        self.added("out", self.buffers.attended, w, self.buffers.x, x, after, length)

    def gated(self, w: Tensor, x: Tensor, after: Next, length: Tensor) -> None:
        """The end of a GDN layer on top of x."""
        b, gated = self.buffers, self.buffers.gated.flatten(1)
        if dense.serves_gated(w, b.squares.shape[1]):
            dense.gated_product(
                gated, b.squares, self.eps, w, b.x, length, x, after, launch=self.launches["out"]
            )
        else:
            general.gated_product(gated, b.squares, self.eps, w, b.x, x, after, b.space,
                                  early=self.early)  # fmt: skip

    def route(self, w: Weights, length: Tensor) -> None:
        """The router's logits of the stream's norm. The streaming experts choose by them; for the
        others the choice is a launch of its own."""
        b = self.buffers
        if streaming_experts.serves(w):
            self.normed("router", w.router, b.routed.logits, length)
        else:
            route(b.normed, self.eps, w.router, length, b.routed, b.space, early=self.early)

    def show_choice(self, w: Weights, length: Tensor) -> None:
        """The experts that `route` chose, to be seen from outside."""
        if streaming_experts.serves(w):
            self._choose(length)

    def choose_again(self, w: Weights, length: Tensor) -> None:
        """The experts for fewer tokens than `route` was for."""
        if not streaming_experts.serves(w):
            self._choose(length)

    def _choose(self, length: Tensor) -> None:
        choose(length, self.buffers.routed, self.buffers.space, early=self.early)

    def experts(self, w: Weights, x: Tensor, y: Tensor, after: Next, length: Tensor) -> None:
        """y = x and what the experts make of its norm."""
        b, early = self.buffers, self.early
        if streaming_experts.serves(w):
            streaming_experts.up(
                b.normed, self.eps, w, length, b.routed, b.h, b.shared, launch=self.launches["up"]
            )
            streaming_experts.down(
                b.h, b.shared, w, length, b.routed, x, y, after, launch=self.launches["down"]
            )
        else:
            general_experts.up(b.normed, self.eps, w, b.routed, b.h, b.shared, early=early)
            general_experts.down(b.h, b.shared, w, b.routed, x, y, b.space, after, early=early)
