"""A layer's attention from rows of the joint projection, in one of two sequences of launches."""

from __future__ import annotations

from enum import Enum

from torch import Tensor

from hybridspec.kernels.attention.combine import combine
from hybridspec.kernels.attention.config import PAST, AttentionConfig, CombineConfig, Sight
from hybridspec.kernels.attention.prepare import Norms, Tables, prepare
from hybridspec.kernels.attention.split import attend
from hybridspec.kernels.last import Workspace


class Form(Enum):
    """The launches. JOINED: `prepare`, then `attend`, which adds its parts. APART: `combine` adds
    them."""

    JOINED = "prepare, attend"
    APART = "prepare, attend, combine"


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
        workspace: of at least `room`. config, own: how `attend` and `combine` are cut.
        sight: what a row sees.
        early: as in `kernels/early.py`; of all these, qkv and the workspace alone may be what the
            kernel just before writes.
    """
    gate, at = qkv if gated else None, (position, length)
    prepare(qkv, norms, rope, keys, values, *at, q, gated=gated, ring=sight.ring, early=early)
    joined = out if form is Form.JOINED else None
    attend(q, gate, keys, values, *at, joined, workspace, config, sight=sight, early=early)
    if form is Form.APART:
        combine(gate, keys, *at, out, workspace, config, own, sight=sight, early=early)
