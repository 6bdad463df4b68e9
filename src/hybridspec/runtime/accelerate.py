"""Whether a target's verifications and a drafter's proposals run as our kernels; imports none
where they do not."""

from __future__ import annotations

import torch

from hybridspec.kernels.support import serves
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BLOCK, HEAD = 16, 256  # rows of a tile; values of a head that attention is cut for


def accelerated(target: Target) -> Target:
    """The target with its verifications as kernels, where they serve it; else itself, and on a GPU
    the reason is said once."""
    if not serves("Verifications", target.device, lambda: refusal(target)):
        return target
    from hybridspec.runtime.launched import LaunchedTarget

    return LaunchedTarget(target)


def accelerated_drafter(drafter: Drafter, target: Target) -> Drafter:
    """The drafter with its passes as kernels, where they serve it; else as `accelerated`."""
    if not serves("Drafts", drafter.device, lambda: drafter_refusal(drafter)):
        return drafter
    from hybridspec.runtime.launched_drafter import LaunchedDrafter

    return LaunchedDrafter(drafter, target)


def refusal(target: Target) -> str | None:
    """Why the kernels do not serve a model, as the end of a sentence; None if they do."""
    c, size = target.config, target.config.linear_value_head_dim
    if target.dtype not in DTYPES:
        return f"the kernels do not compute in {target.dtype}"
    if not 16 <= size <= 256 or size & (size - 1):
        return f"GDN value heads must have 16 to 256 values, a power of 2, and have {size}"
    if c.linear_conv_kernel_dim != 4:
        return f"the convolution must go over 4 columns and goes over {c.linear_conv_kernel_dim}"
    return None


def drafter_refusal(drafter: Drafter) -> str | None:
    """As `refusal`, of a drafter."""
    c = drafter.config
    if drafter.dtype not in DTYPES:
        return f"the kernels do not compute in {drafter.dtype}"
    if c.block_size > BLOCK:
        return f"a block must have at most {BLOCK} rows and has {c.block_size}"
    if c.head_dim > HEAD:
        return f"heads must have at most {HEAD} values and have {c.head_dim}"
    return None
