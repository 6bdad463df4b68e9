"""Calls of the kernels for prompts: as in `kernel_calls.py`."""

from __future__ import annotations

import torch
from kernel_calls import GDN, HALF, MOE, empty

from hybridspec.kernels.gdn import chunked, ends
from hybridspec.kernels.moe import grouped, tiles
from hybridspec.kernels.moe.config import TileConfig

TOKENS = 1000


def gdn(key_heads: int, value_heads: int, dk: int, dv: int) -> None:
    heads = ends.Heads(key_heads, value_heads, dk, dv)
    channels = 2 * key_heads * dk + value_heads * dv
    joint = empty(TOKENS, channels + value_heads * (dv + 2), dtype=HALF)
    history, taps = empty(3, channels, dtype=HALF), empty(4, channels)
    q, k, v = ends.convolve(joint[:, :channels], history, taps, heads, 1e-6)
    beta, g = empty(TOKENS, value_heads), empty(TOKENS, value_heads)
    o = chunked.prefill(q, k, v, beta, g, empty(value_heads, dv, dk))
    ends.finish(o, joint[:, channels : channels + value_heads * dv], empty(dv), 1e-6)


def moe(hidden: int, count: int, top: int, width: int, shared: int) -> None:
    pairs = TOKENS * top
    list_of_tiles = (empty(200, dtype=torch.int32), *(empty(count, dtype=torch.int32),) * 2)
    for dtype in (HALF, torch.float32):
        x, up = empty(TOKENS, hidden, dtype=dtype), empty(count, 2 * width, hidden, dtype=dtype)
        config = TileConfig.choose(8192 * top, count, up.element_size())  # the largest tile
        cut = tiles.Cut(*list_of_tiles, config)
        h = tiles.gate_up(x, empty(pairs, dtype=torch.int64), up, cut)
        y = tiles.product(h, empty(count, hidden, width, dtype=dtype), cut)
        grouped.activate(empty(pairs, 2 * width, dtype=dtype))
        place = empty(pairs, dtype=torch.int64)
        grouped.add_up(y, place, empty(TOKENS, top), x)


CALLS = {
    **{f"prompt gdn {name}": lambda shape=shape: gdn(*shape) for name, shape in GDN.items()},
    **{f"prompt moe {name}": lambda shape=shape: moe(*shape) for name, shape in MOE.items()},
}
