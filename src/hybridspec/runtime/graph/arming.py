"""The kernels that tell conditional nodes what to do (`arm.cu`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hybridspec.kernels import cuda


@dataclass(frozen=True, slots=True)
class Arming:
    """Both kernels, loaded: a module cannot be while its launch is captured.

    They are never launched early: whoever reads a condition waits for all that leads to it, and
    what follows the node has a full dependency.
    """

    switch_node: cuda.Kernel
    loop_node: cuda.Kernel

    @classmethod
    def on(cls, device: torch.device) -> Arming:
        """For a device with an index."""
        return cls(*(
            cuda.load(__package__, "arm.cu", name, (), 1, device.index)
            for name in ("switch_node", "loop_node")
        ))  # fmt: skip

    def switch(self, handle: int, index: Tensor, bodies: int, damaged: Tensor) -> None:
        """Set a SWITCH to index, or to its last body with damaged = 1."""
        self.switch_node.launch((1,), (cuda.Wide(handle), index, bodies, damaged))

    def loop(self, handle: int, going: Tensor) -> None:
        """Set a WHILE to whether going is not 0."""
        self.loop_node.launch((1,), (cuda.Wide(handle), going))
