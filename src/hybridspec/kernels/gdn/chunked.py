"""Any number of GDN tokens as chunks of 64, in three Triton kernels; the law: `naive.prefill`.

`_within` solves each chunk's triangular system for what does not depend on the state, all chunks at
once; `_scan` walks the chunks and leaves the state before each; `_outputs` reads these, all chunks
at once again. README.md has the derivation.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.gdn.chunk import decay, gamma, tile, unit_inverse
from hybridspec.kernels.gdn.config import ChunkConfig

LEVELS = 6
CHUNK = 1 << LEVELS
HEADS = (32, 64, 128)  # dk = dv that are served
DEPTH = 32  # columns of a head in a step: operands of fp32 products lie in registers


@triton.jit(do_not_specialize=["T"])
def _within(  # type: ignore[no-untyped-def]
    k, v, beta, g, u, w, grown, left, T,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    DEPTH: tl.constexpr, CHUNK: tl.constexpr, LEVELS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """u = H^-1 diag(beta) V and w = H^-1 diag(beta e^G) K, so that z = u - w S^T for any state;
    e^(G_i) and e^(G_n - G_i) for the scan. DEPTH columns of K and V at a time."""
    start, head = tl.program_id(0) * CHUNK, tl.program_id(1)
    key_head = head // (VH // KH)
    t = start + tl.arange(0, CHUNK)
    real = t < T
    at = t.to(tl.int64) * VH + head
    total = decay(g, start, head, T, VH, CHUNK)
    whole = tl.sum(tl.where(tl.arange(0, CHUNK) == CHUNK - 1, total, 0.0), 0)
    growth = tl.exp(total.to(tl.float32))
    tl.store(grown + at, growth, mask=real)
    tl.store(left + at, tl.exp((whole - total).to(tl.float32)), mask=real)
    rate = tl.load(beta + at, mask=real, other=0.0)

    lower = tl.zeros((CHUNK, CHUNK), tl.float32)
    for first in range(0, DK, DEPTH):
        key = tile(k, start, key_head, first, T, KH, DK, DEPTH, CHUNK)
        lower = tl.dot(key, tl.trans(key), lower, input_precision=PRECISION)
    later = tl.arange(0, CHUNK)[:, None] > tl.arange(0, CHUNK)[None, :]
    lower = tl.where(later, lower * gamma(total, CHUNK) * rate[:, None], 0.0)
    inverse = unit_inverse(lower, CHUNK, LEVELS, PRECISION)

    tl.debug_barrier()  # what was stored is read again: the inverse needs all registers
    rate = tl.load(beta + at, mask=real, other=0.0)
    growth = tl.load(grown + at, mask=real, other=0.0)
    col = tl.arange(0, DEPTH)[None, :]
    for first in range(0, DV, DEPTH):
        value = tile(v, start, head, first, T, VH, DV, DEPTH, CHUNK) * rate[:, None]
        made = tl.dot(inverse, value, input_precision=PRECISION)
        tl.store(u + at[:, None] * DV + first + col, made, mask=real[:, None])
    for first in range(0, DK, DEPTH):
        key = tile(k, start, key_head, first, T, KH, DK, DEPTH, CHUNK) * (rate * growth)[:, None]
        made = tl.dot(inverse, key, input_precision=PRECISION)
        tl.store(w + at[:, None] * DK + first + col, made, mask=real[:, None])


@triton.jit(do_not_specialize=["T"])
def _scan(  # type: ignore[no-untyped-def]
    k, u, w, grown, left, state, states, T,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    ROWS: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Walk the chunks with some rows of a head's state, held transposed (as it is multiplied) in
    two halves [DK / 2, ROWS]. z takes the place of u; the state before each chunk goes to
    `states`."""
    head = tl.program_id(1)
    key_head = head // (VH // KH)
    half: tl.constexpr = DK // 2
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    upper = (head * DV + row)[None, :] * DK + tl.arange(0, half)[:, None]
    s, s_more = tl.load(state + upper), tl.load(state + half + upper)
    before = states + upper
    for start in range(0, T, CHUNK):
        tl.store(before, s)
        tl.store(before + half, s_more)
        before += VH * DV * DK
        t = start + tl.arange(0, CHUNK)
        real = t < T
        at = t.to(tl.int64) * VH + head
        z = tl.load(u + at[:, None] * DV + row[None, :], mask=real[:, None], other=0.0)
        part = tile(w, start, head, 0, T, VH, DK, half, CHUNK)
        z -= tl.dot(part, s, input_precision=PRECISION)
        part = tile(w, start, head, half, T, VH, DK, half, CHUNK)
        z -= tl.dot(part, s_more, input_precision=PRECISION)
        tl.store(u + at[:, None] * DV + row[None, :], z, mask=real[:, None])
        z *= tl.load(left + at, mask=real, other=0.0)[:, None]
        last = tl.minimum(start + CHUNK, T) - 1
        growth = tl.load(grown + last * VH + head)
        part = tile(k, start, key_head, 0, T, KH, DK, half, CHUNK)
        s = tl.dot(tl.trans(part), z, s * growth, input_precision=PRECISION)
        part = tile(k, start, key_head, half, T, KH, DK, half, CHUNK)
        s_more = tl.dot(tl.trans(part), z, s_more * growth, input_precision=PRECISION)
    tl.store(state + upper, s)
    tl.store(state + half + upper, s_more)


@triton.jit(do_not_specialize=["T"])
def _outputs(  # type: ignore[no-untyped-def]
    q, k, z, g, states, o, T,
    KH: tl.constexpr, VH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    COLS: tl.constexpr, DEPTH: tl.constexpr, CHUNK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """o = diag(e^G) Q S^T + (Gamma o Q K^T) z, COLS columns of a head's chunk."""
    start, head = tl.program_id(0) * CHUNK, tl.program_id(1)
    key_head = head // (VH // KH)
    row = tl.program_id(2) * COLS + tl.arange(0, COLS)
    before = states + tl.program_id(0).to(tl.int64) * (VH * DV * DK)
    before += (head * DV + row)[None, :] * DK + tl.arange(0, DEPTH)[:, None]
    scores = tl.zeros((CHUNK, CHUNK), tl.float32)
    reads = tl.zeros((CHUNK, COLS), tl.float32)
    for first in range(0, DK, DEPTH):
        query = tile(q, start, key_head, first, T, KH, DK, DEPTH, CHUNK)
        key = tile(k, start, key_head, first, T, KH, DK, DEPTH, CHUNK)
        scores = tl.dot(query, tl.trans(key), scores, input_precision=PRECISION)
        reads = tl.dot(query, tl.load(before + first), reads, input_precision=PRECISION)
    total = decay(g, start, head, T, VH, CHUNK)
    scores = scores * gamma(total, CHUNK)
    reads = reads * tl.exp(total.to(tl.float32))[:, None]

    t = start + tl.arange(0, CHUNK)
    at = (t.to(tl.int64)[:, None] * VH + head) * DV + row[None, :]
    real = (t < T)[:, None]
    written = tl.load(z + at, mask=real, other=0.0)
    tl.store(o + at, tl.dot(scores, written, reads, input_precision=PRECISION), mask=real)


def refusal(heads: tuple[int, int, int, int], dtype: torch.dtype) -> str | None:
    """Why heads (KH, VH, dk, dv) of a model of a dtype are not served, as the end of a sentence."""
    key_heads, value_heads, dk, dv = heads
    if dtype == torch.float64:
        return "there is no kernel for float64"
    if dk != dv or dk not in HEADS or value_heads % key_heads:
        return f"heads must be {', '.join(f'{h} x {h}' for h in HEADS)} and are {dk} x {dv}"
    return None


def prefill(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor, state: Tensor,
    config: ChunkConfig | None = None,
) -> Tensor:  # fmt: skip
    """Run T tokens of one layer: o [T, VH, dv] fp32. The state [VH, dv, dk] fp32 is advanced.

    Args:
        q, k: [T, KH, dk] fp32, of unit length, q scaled by dk^-1/2. v: [T, VH, dv], any float.
        beta, g: [T, VH] fp32, the rate and the logarithm of the decay, at most 0.
        All contiguous, heads of sizes that `refusal` does not name.
    """
    tokens, key_heads, dk = k.shape
    value_heads, dv = v.shape[1:]
    roomy = v.is_cuda and torch.cuda.get_device_capability(v.device)[0] >= 9
    c = config or ChunkConfig.choose(dk, dv, v.dtype, roomy=roomy)
    sizes = (tokens, key_heads, value_heads, dk, dv)
    chunks = triton.cdiv(tokens, CHUNK)
    u, o = (state.new_empty(tokens, value_heads, dv) for _ in range(2))
    w = state.new_empty(tokens, value_heads, dk)
    grown, left = state.new_empty(2, tokens, value_heads)
    states = state.new_empty(chunks, value_heads, dv, dk)
    _within[(chunks, value_heads)](
        k, v, beta, g, u, w, grown, left, *sizes, DEPTH, CHUNK, LEVELS, c.precision,
        num_warps=c.warps, num_stages=1, enable_fp_fusion=False,
    )  # fmt: skip
    _scan[(dv // c.rows, value_heads)](
        k, u, w, grown, left, state, states, *sizes, c.rows, CHUNK, c.precision,
        num_warps=c.scan_warps, num_stages=c.scan_stages, enable_fp_fusion=False,
    )  # fmt: skip
    _outputs[(chunks, value_heads, dv // c.cols)](
        q, k, u, g, states, o, *sizes, c.cols, DEPTH, CHUNK, c.precision,
        num_warps=c.warps, num_stages=1, enable_fp_fusion=False,
    )  # fmt: skip
    return o
