"""What a verification keeps of its tokens, and whether a sequence takes the memory that is said."""

from __future__ import annotations

import torch

from hybridspec.kernels.bench.setting import Setting
from hybridspec.runtime.state import TargetState, W


def keep_memory(s: Setting) -> None:
    """Compact factors and convolution columns of W tokens in all GDN layers, and `nbytes`."""
    capacity = 8192 if s.device.type == "cuda" else 64
    before = _allocated(s)
    state = TargetState(s.shape.target(), capacity, device=s.device, dtype=s.dtype, joint=True)
    taken = _allocated(s) - before
    assert state.alpha is not None
    factors = state.z.nbytes + state.k.nbytes + state.alpha.nbytes
    columns, rows = (t[..., -W:, :].numel() * t.element_size() for t in (state.conv, state.raw))
    for name, nbytes in (
        ("factors", factors), ("convolution columns", columns),
        ("whole rows of the joint projection", rows),
    ):  # fmt: skip
        s.keep({"name": f"memory of a verification: {name}", "gb": round(nbytes / 1e9, 5)})
    record = {
        "name": "memory of a sequence",
        "tokens": capacity,
        "gb": round(state.nbytes / 1e9, 4),
    }
    if s.device.type == "cuda":
        record |= {"allocated_gb": round(taken / 1e9, 4), "off": abs(taken / state.nbytes - 1)}
    s.keep(record)


def _allocated(s: Setting) -> int:
    return torch.cuda.memory_allocated(s.device) if s.device.type == "cuda" else 0
