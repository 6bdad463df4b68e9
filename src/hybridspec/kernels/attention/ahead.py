"""Rows of a cache asked for ahead: on their way to the second-level cache they need no registers
and no shared memory, and they pay for what an address costs that was not used lately."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def ask_for(keys, values, first, last, D: tl.constexpr, ON: tl.constexpr):  # type: ignore[no-untyped-def]
    """Rows first to last of one head's keys and values; none where last is not beyond first. On:
    compute capability 9.0 or newer."""
    if ON and last > first:
        size = (last - first) * (D * keys.dtype.element_ty.primitive_bitwidth // 8)
        _ask((keys + first * D).to(tl.int64), size)
        _ask((values + first * D).to(tl.int64), size)


@triton.jit
def _ask(address, size):  # type: ignore[no-untyped-def]
    """By the program's first thread. Address and size in bytes, multiples of 16."""
    tl.inline_asm_elementwise(
        """{
        .reg .pred one;
        .reg .u32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 one, thread, 0;
        @one cp.async.bulk.prefetch.L2.global [$1], $2;
        mov.u32 $0, 0;
        }""",
        "=r,l,r", [address, size], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
