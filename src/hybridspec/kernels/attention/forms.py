"""A layer's attention from rows of the joint projection, in one of three sequences of launches."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor

from hybridspec.kernels.attention import split, split_cuda
from hybridspec.kernels.attention.combine import combine
from hybridspec.kernels.attention.config import PAST, AttentionConfig, CombineConfig, Sight
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.cuda import KernelError
from hybridspec.kernels.last import Workspace


class Form(Enum):
    """The launches. JOINED: `prepare`, then `attend`, which adds its parts. APART: `combine` adds
    them. WARPGROUPS: so too, by `split_cuda`, gated and to the past alone."""

    JOINED = "prepare, attend"
    APART = "prepare, attend, combine"
    WARPGROUPS = "prepare, attend, combine by warpgroups"

    @classmethod
    def of_target(
        cls, heads: int, kv: int, size: int, dtype: torch.dtype, device: torch.device
    ) -> Form:
        """The fastest for a target's layers."""
        served = split_cuda.serves(heads, kv, size, dtype, device)
        return cls.WARPGROUPS if served else cls.APART

    def room(
        self, heads: int, kv: int, size: int, rows: int, device: torch.device,
        config: AttentionConfig | None = None,
    ) -> tuple[int, int]:  # fmt: skip
        """Parts and counters that a workspace needs for a cache of so many rows."""
        if self is Form.WARPGROUPS:
            return split_cuda.room(heads, kv, device), 0
        return split.room(heads, kv, size, rows, config)


def attention(
    qkv: Tensor, norms: Norms, rope: Tables, keys: Tensor, values: Tensor, position: Tensor,
    length: Tensor, q: Tensor, out: Tensor, workspace: Workspace,
    config: AttentionConfig | None = None, own: CombineConfig | None = None, *,
    gated: bool = False, sight: Sight = PAST, form: Form = Form.JOINED, early: bool = False,
) -> None:  # fmt: skip
    """Attention of `length` rows at P, P + 1, ... over the cache, which takes their k and v.

    Args:
        qkv, norms, rope, keys, values, gated: as in `prepare`, of one layer.
        position, length: [] int32 on the device, P and w <= 16.
        q: [16, H, D], room for queries.
        out: [16, H D], written: rows beyond the length are 0.
        workspace: of at least the form's `room`. config, own: how `attend` and `combine` are cut,
            but in WARPGROUPS.
        sight: what a row sees.
        early: as in `kernels/early.py`; of all these, qkv and the workspace alone may be what the
            kernel just before writes.

    Raises:
        KernelError: WARPGROUPS, and not gated or not to the past; nothing is launched then.
    """
    gate, at = qkv if gated else None, (position, length)
    if form is Form.WARPGROUPS and (gate is None or sight != PAST):
        raise KernelError(
            f"Warpgroups serve gated attention to the past; got {sight}, gated={gated}. Take "
            f"{Form.APART}."
        )
    prepare(qkv, norms, rope, keys, values, *at, q, gated=gated, ring=sight.ring, early=early)
    if form is Form.WARPGROUPS:
        split_cuda.attend(q, keys, values, *at, workspace, early=early)
        split_cuda.combine(qkv, len(keys), *at, out, workspace, early=early)
        return
    joined = out if form is Form.JOINED else None
    split.attend(q, gate, keys, values, *at, joined, workspace, config, sight=sight, early=early)
    if form is Form.APART:
        combine(gate, keys, *at, out, workspace, config, own, sight=sight, early=early)
