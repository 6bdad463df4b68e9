"""Where the splits of a cache lie, for kernels: `AttentionConfig.rungs` in arithmetic."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def count_of(rows, RUNGS: tl.constexpr):  # type: ignore[no-untyped-def]
    """How many splits begin before this row."""
    count = rows * 0
    for i in tl.static_range(len(RUNGS)):
        past = rows - RUNGS[i][1]
        count = tl.where(past > 0, RUNGS[i][0] + tl.cdiv(past, RUNGS[i][2]), count)
    return count


@triton.jit
def start_of(split, RUNGS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first row of a split."""
    start = split * 0
    for i in tl.static_range(len(RUNGS)):
        past = split - RUNGS[i][0]
        start = tl.where(past >= 0, RUNGS[i][1] + past * RUNGS[i][2], start)
    return start
