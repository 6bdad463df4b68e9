"""From logits to the target's tokens in two Triton kernels, without a word to the host.

`_peak` finds each row's largest logit and, for a top k, a floor that the k-th largest is not below.
`_pick` weighs every token. Without a filter it leaves one sum a chunk; the last program of a row
finds the chunk and then the token. With one, it lists the tokens that may pass; the last program
searches the list.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.last import is_last
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.kernels.sampling.ends import from_list, from_sums, load_chunk
from hybridspec.kernels.sampling.numbers import at_least, mass, order, ordered, uniform
from hybridspec.kernels.sampling.request import Request, Scratch
from hybridspec.kernels.sampling.search import LOGITS, descend

CLOSE = tl.constexpr(1e-12)  # a nucleus this close to all is searched for among all


@triton.jit
def _top_k(request, V):  # type: ignore[no-untyped-def]
    """k as int64; 0 where it keeps everything."""
    k = tl.load(request + 1)
    return tl.where((k > 0) & (k < V), k, 0.0).to(tl.int64)


@triton.jit
def _peak(  # type: ignore[no-untyped-def]
    logits, stride, length, request, tokens, bad, tops, groups, peak, floor, arrived, V,
    CHUNKS: tl.constexpr, PADDED: tl.constexpr, CHUNK: tl.constexpr, GROUP: tl.constexpr,
    BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    chunk, row = tl.program_id(0), tl.program_id(1)
    if row >= tl.load(length):
        tl.store(bad + row, 0, mask=chunk == 0)
        return
    PER: tl.constexpr = CHUNK // GROUP
    groups += row * (CHUNKS * PER)
    narrow = _top_k(request, V)
    token, x = load_chunk(logits + row * stride, chunk, V, CHUNK)
    x = tl.where(x == x, x, float("inf"))  # not a number is as bad as infinity
    rank = (order(x) << 31) | (0x7FFFFFFF - token).to(tl.int64)  # ties to the lowest id
    tl.store(tops + row * CHUNKS + chunk, tl.max(rank, 0))
    if narrow > 0:
        group = chunk * PER + tl.arange(0, PER)
        tl.store(groups + group, tl.max(tl.reshape(x, (PER, GROUP)), 1))
    if is_last(arrived + row, CHUNKS):
        part = tl.arange(0, PADDED)
        at = tops + row * CHUNKS + part
        best = tl.max(tl.load(at, mask=part < CHUNKS, other=0, cache_modifier=".cg"), 0)
        top = ordered(best >> 31)
        broken = tl.abs(top) == float("inf")
        tl.store(bad + row, broken.to(tl.int32))
        tl.store(tokens + row, tl.where(broken, 0, 0x7FFFFFFF - (best & 0x7FFFFFFF)))
        tl.store(peak + row, top)
        if narrow > 0:
            count = tl.cdiv(V, GROUP)
            low = descend(groups, groups, count, narrow, 0, LOGITS, 8, 4, BLOCK)
            tl.store(floor + row, low)


@triton.jit
def _pick(  # type: ignore[no-untyped-def]
    logits, stride, length, seed, position, request, tokens, bad, sums, peak, floor, arrived,
    listed, values, ids, V, share,
    SHIFT: tl.constexpr, CHUNKS: tl.constexpr, PADDED: tl.constexpr, CHUNK: tl.constexpr,
    DIGITS: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    chunk, row = tl.program_id(0), tl.program_id(1)
    temperature = tl.load(request)
    if (row >= tl.load(length)) | (temperature <= 0.0):
        return
    if tl.load(bad + row) != 0:
        return
    temperature = tl.maximum(temperature, 1e-30).to(tl.float32)  # as in runtime/sampling.py
    narrow, top_p, min_p = _top_k(request, V), tl.load(request + 2), tl.load(request + 3)
    filtered = (narrow > 0) | (top_p < 1.0) | (min_p > 0.0)
    highest, low = tl.load(peak + row), tl.load(floor + row)
    logits += row * stride
    sums += row * CHUNKS
    values += row.to(tl.int64) * V
    ids += row.to(tl.int64) * V

    token, x = load_chunk(logits, chunk, V, CHUNK)
    m = mass(x, highest, temperature, SHIFT).to(tl.int64)
    if narrow == 0:
        tl.store(sums + chunk, tl.sum(m, 0))
    # The largest mass is 2^SHIFT, so min_p is a bound known from the start.
    FULL: tl.constexpr = 1 << SHIFT
    least = at_least(min_p * tl.full((), FULL, tl.int64).to(tl.float64))
    if filtered:
        # Together, the masses below this are less than half of what a nucleus may leave out.
        light = tl.where(1.0 - top_p > CLOSE, (1.0 - top_p) * share, 0.0).to(tl.int64)
        may = tl.where(narrow > 0, (order(x) >= low) & (m > 0), m >= tl.maximum(least, light))
        found = tl.sum(may.to(tl.int32), 0)
        if found > 0:
            place = tl.atomic_add(listed + row, found) + tl.cumsum(may.to(tl.int32), 0) - 1
            tl.store(values + place, x, mask=may)
            tl.store(ids + place, token, mask=may)
    if is_last(arrived + row, CHUNKS):
        u = uniform(tl.load(seed), tl.load(position) + row)
        if filtered:
            count = tl.atomic_xchg(listed + row, 0)
            y = from_list(values, ids, count, narrow, top_p, least, sums, u, highest, temperature,
                           SHIFT, CHUNKS, PADDED, DIGITS, BLOCK)  # fmt: skip
        else:
            y = from_sums(sums, logits, u, highest, temperature, V, SHIFT, CHUNKS, PADDED, CHUNK)
            y = y.to(tl.int64)
        tl.store(tokens + row, y)


def sample(
    logits: Tensor, length: Tensor, request: Request, tokens: Tensor, bad: Tensor,
    scratch: Scratch, config: SampleConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """The target's token of each of the first `length` rows, as `runtime/sampling.py` defines it.

    Args:
        logits: [16, V] fp32, bf16 or fp16; a row is contiguous.
        length: [] int32 on the device.
        tokens: [16] int64, written; 0 where `bad`, untouched beyond the length.
        bad: [16] int32, written: 1 where a row has no finite largest logit, else 0.
        scratch: made for the same vocabulary and config.
        early: as in `kernels/early.py`.
    """
    vocabulary = logits.shape[1]
    c = config or SampleConfig.choose(vocabulary)
    chunks = c.chunks(vocabulary)
    s, padded, grid = scratch, triton.next_power_of_2(chunks), (chunks, ROWS)
    launched = {"num_warps": c.warps, "enable_fp_fusion": False, **options(early)}
    _peak[grid](
        logits, logits.stride(0), length, request.params, tokens, bad, s.tops, s.groups, s.peak,
        s.floor, s.arrived, vocabulary, chunks, padded, c.chunk, c.group, c.block, early,
        **launched,
    )  # fmt: skip
    digits, shift = -(-max(1, (vocabulary - 1).bit_length()) // 4), 62 - vocabulary.bit_length()
    _pick[grid](
        logits, logits.stride(0), length, *request, tokens, bad, s.sums, s.peak, s.floor, s.arrived,
        s.count, s.values, s.ids, vocabulary, 2.0**shift / (2 * vocabulary), shift, chunks, padded,
        c.chunk, digits, c.block, early, **launched,
    )  # fmt: skip
