"""The experts of many tokens: rows sorted by expert on the device, two grouped products, one sum.

Nothing waits for the host. On compute capability 9.0 the products are torch's own (CUTLASS, bf16,
offsets on the device); elsewhere torch would fetch the offsets to the host and loop, so `tiles.py`
has ours. A token's k results are added in the order of its slots: no atomics, equal bits each time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.moe import tiles
from hybridspec.kernels.moe.config import TileConfig

HALVES = (torch.bfloat16, torch.float16)
LIBRARY = (9, torch.bfloat16)  # where torch's grouped product needs no host
LIBRARY_ALIGNMENT = 8  # its rows are fetched by TMA: multiples of 16 bytes


class Order(NamedTuple):
    """The T k pairs of token and slot, ordered by expert, a token's before a later one's.

    token [T k] int64: whose row stands in each place. place [T k] int64: where each pair went.
    ends [E] int32: the place behind each expert's last.
    """

    token: Tensor
    place: Tensor
    ends: Tensor


def order(experts: Tensor, count: int) -> Order:
    """Sort experts [T, k], ids below `count`."""
    # a radix sort takes a pass a byte: two instead of eight
    flat = experts.flatten().to(torch.int16 if count < 1 << 15 else torch.int64)
    ids, pair = flat.sort(stable=True)
    every = torch.arange(count, dtype=ids.dtype, device=ids.device)
    ends = torch.searchsorted(ids, every, right=True, out_int32=True)
    place = torch.empty_like(pair)
    place.scatter_(0, pair, torch.arange(len(pair), device=ids.device))
    return Order(pair // experts.shape[1], place, ends)


def refusal(gate_up: Tensor) -> str | None:
    """Why these experts [E, 2 I, K] are not served, as the end of a sentence."""
    if gate_up.dtype not in (*HALVES, torch.float32):
        return f"there is no kernel for {gate_up.dtype}"
    if not gate_up.is_contiguous():
        return "weights do not lie in rows"
    return None


def uses_library(gate_up: Tensor) -> bool:
    """Whether torch's grouped product serves these experts [E, 2 I, K] without the host."""
    if gate_up.device.type != "cuda":
        return False
    major, _ = torch.cuda.get_device_capability(gate_up.device)
    aligned = all(n % (2 * LIBRARY_ALIGNMENT) == 0 for n in gate_up.shape[1:])
    return (major, gate_up.dtype) == LIBRARY and aligned


def library_product(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    """x [M, K], rows in groups that stop at `ends` [E], by w [E, N, K] -> [M, N]."""
    grouped = getattr(F, "grouped_mm", None) or torch._grouped_mm
    made: Tensor = grouped(x, w.transpose(1, 2), offs=ends)
    return made


@triton.jit
def _activate(x, y, WIDTH, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """silu(gate) up of a row [2 WIDTH]."""
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, WIDTH, COLS):
        col = start + tl.arange(0, COLS)
        gate = tl.load(x + row * 2 * WIDTH + col, mask=col < WIDTH).to(tl.float32)
        up = tl.load(x + (row * 2 + 1) * WIDTH + col, mask=col < WIDTH).to(tl.float32)
        made = gate / (1.0 + tl.exp(-gate)) * up
        tl.store(y + row * WIDTH + col, made.to(y.dtype.element_ty), mask=col < WIDTH)


@triton.jit
def _sum(y, place, weights, base, out, K, TOP: tl.constexpr, COLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """out = base + each token's slots: weight times the row in the slot's place; in fp32."""
    token = tl.program_id(0).to(tl.int64)
    col = tl.program_id(1) * COLS + tl.arange(0, COLS)
    acc = tl.load(base + token * K + col, mask=col < K).to(tl.float32)
    for slot in tl.static_range(TOP):
        row = tl.load(place + token * TOP + slot)
        weight = tl.load(weights + token * TOP + slot)
        acc += weight * tl.load(y + row * K + col, mask=col < K).to(tl.float32)
    tl.store(out + token * K + col, acc.to(out.dtype.element_ty), mask=col < K)


def activate(x: Tensor) -> Tensor:
    """[M, 2 I] -> [M, I], in fp32 with one rounding."""
    rows, width = x.shape[0], x.shape[1] // 2
    y = x.new_empty(rows, width)
    cols = min(1024, triton.next_power_of_2(width))
    _activate[(rows,)](x, y, width, cols, num_warps=max(1, min(4, cols // 128)))
    return y


def add_up(y: Tensor, place: Tensor, weights: Tensor, base: Tensor) -> Tensor:
    """base [T, K] + the weighted rows y [T k, K] of each token; weights [T, k] fp32."""
    tokens, size = base.shape
    out = torch.empty_like(base)
    cols = min(1024, triton.next_power_of_2(size))
    _sum[(tokens, triton.cdiv(size, cols))](
        y, place, weights, base, out, size, weights.shape[1], cols, num_warps=4,
        enable_fp_fusion=False,
    )  # fmt: skip
    return out


def combine(
    u: Tensor, experts: Tensor, weights: Tensor, gate_up: Tensor, down: Tensor, base: Tensor,
    *, library: bool | None = None,
) -> Tensor:  # fmt: skip
    """base + the weighted sum of every token's experts: [T, K].

    Args:
        u: [T, K], of the weights' dtype. base: [T, K].
        experts, weights: [T, k], int64 and fp32.
        gate_up, down: [E, 2 I, K] and [E, K, I], contiguous.
        library: whether torch multiplies; by default where `uses_library`.
    """
    sort = order(experts, len(down))
    weights = weights.float().contiguous()
    if uses_library(gate_up) if library is None else library:
        h = activate(library_product(u[sort.token], gate_up, sort.ends))
        y = library_product(h, down, sort.ends)
    else:
        rows = len(sort.token)
        config = TileConfig.choose(rows, len(down), down.element_size())
        cut = tiles.cut(sort.ends, rows, config)
        h = tiles.gate_up(u.contiguous(), sort.token, gate_up, cut)
        y = tiles.product(h, down, cut)
    return add_up(y, sort.place, weights, base.contiguous())
