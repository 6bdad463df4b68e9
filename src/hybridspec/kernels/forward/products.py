"""Products over one residual stream, each by the kernel that serves its weight's size: a streaming
one where it does, else Triton's. One weight is always multiplied by the same kernel."""

from __future__ import annotations

from torch import Tensor

from hybridspec.kernels.last import Workspace
from hybridspec.kernels.linear import product as general
from hybridspec.kernels.linear.norm import Next, Normed
from hybridspec.kernels.linear.up import up_product
from hybridspec.kernels.stream import dense
from hybridspec.kernels.stream.config import Launch

# Other ways are slower: `hybridspec bench kernels --parts launches`, and docs/log.md.
LAUNCHES = {
    name: Launch(early=True, deep=4 if name in ("joint", "head", "out") else 3)
    for name in ("joint", "router", "head", "out", "up", "down")
}


class Products:
    """Launches of products. stream: what a producer of the residual stream leaves for its norm."""

    def __init__(self, stream: Normed, space: Workspace, eps: float, *, early: bool) -> None:
        self.stream, self.space, self.eps, self.early = stream, space, eps, early
        self.launches = {
            name: launch._replace(early=launch.early and early) for name, launch in LAUNCHES.items()
        }

    def normed(self, name: str, w: Tensor, y: Tensor, length: Tensor) -> None:
        """y = the norm of the stream, times w^T."""
        if dense.serves(w):
            launch = self.launches[name]
            dense.norm_product(self.stream, self.eps, w, y, length, launch=launch)
        else:
            general.norm_product(self.stream, self.eps, w, y, early=self.early)

    def added(
        self, name: str, inner: Tensor, w: Tensor, y: Tensor, x: Tensor, after: Next,
        length: Tensor,
    ) -> None:  # fmt: skip
        """y = x + inner w^T, left for the norm after it."""
        if dense.serves(w):
            dense.product(inner, w, y, length, x, after, launch=self.launches[name])
        else:
            general.product(inner, w, y, x, after, self.space, early=self.early)

    def up(self, w: Tensor, y: Tensor, length: Tensor) -> None:
        """y = silu(gate) * up of the norm of the stream."""
        if dense.serves(w):
            launch = self.launches["up"]
            dense.up_product(self.stream, self.eps, w, y, length, launch=launch)
        else:
            up_product(self.stream, self.eps, w, y, early=self.early)
