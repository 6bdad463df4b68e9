"""Whether a target's verifications run as our kernels; imports none where they do not."""

from __future__ import annotations

import torch

from hybridspec.kernels.support import serves
from hybridspec.model.target import Target

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def accelerated(target: Target) -> Target:
    """The target with its verifications as kernels, where they serve it; else itself, and on a GPU
    the reason is said once."""
    if not serves("Verifications", target.device, lambda: refusal(target)):
        return target
    from hybridspec.runtime.launched import LaunchedTarget

    return LaunchedTarget(target)


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
