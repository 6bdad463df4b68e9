"""Which form of the GDN kernels a pass uses, and the memory that they share with a slot."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.kernels.gdn import exact, fused
from hybridspec.kernels.gdn.fused import Gates
from hybridspec.model.config import TargetConfig
from hybridspec.runtime.state import TargetSlot


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

    def verify(
        self, place: int, gates: Gates, gated: Tensor, squares: Tensor, length: Tensor
    ) -> None:
        """`length` tokens of the GDN layer at `place`; shapes as `gdn/fused.py`."""
        slot = self.slot
        arguments = (
            self.raw[place], gates, slot.checkpoint[place], gated, squares, slot.z[place],
            slot.k[place], self.alpha[place], length,
        )  # fmt: skip
        if not self.cuda:
            fused.verify(*arguments)
            return
        from hybridspec.kernels.gdn import exact_cuda

        exact_cuda.fused(*arguments, early=self.early)

    def commit(self, kept: Tensor) -> None:
        """All layers: states, then convolution columns."""
        slot = self.slot
        arguments = (slot.checkpoint, slot.z, slot.k, self.alpha, kept)
        if self.cuda:
            from hybridspec.kernels.gdn import exact_cuda

            exact_cuda.commit(*arguments, early=self.early)
        else:
            exact.commit(*arguments)
        fused.advance(self.raw, self.channels, kept)
