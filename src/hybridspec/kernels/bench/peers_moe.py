"""SGLang's own expert kernels at the 35B shape, for `peers.py`.

What its `fused_experts` launches between the router and the sum: two grouped products, the
activation and the sum over a token's experts, with its default configuration, for it has none that
was tuned for these sizes on this GPU. Left out, to its advantage: router, top-k, the sorted list of
tokens (which it makes by compiled code that is not in the wheel) and the shared expert.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import torch
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.bench.clock import Clock

TOP, ROWS = 8, 16
EXPERTS, HIDDEN, WIDTH = 256, 2048, 512
DISTINCT = (8, 25, 50, 100)
CALLS = 8  # in a row, each with other experts
BLOCK = 16
# its get_default_config where tokens are fewer than experts
CONFIG = {"BLOCK_SIZE_M": BLOCK, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1}
PLAIN = {
    "use_fp8_w8a8": False, "use_int8_w8a8": False, "use_int8_w8a16": False,
    "use_int4_w4a16": False, "per_channel_quant": False, "filter_expert": False,
}  # fmt: skip


class Order(NamedTuple):
    """Pairs of token and expert by expert, each expert's padded to BLOCK, and each block's
    expert: what SGLang's moe_align_block_size makes."""

    tokens: Tensor
    experts: Tensor
    padded: Tensor


class Layer(NamedTuple):
    """Weights, input and what is made of it."""

    up: Tensor
    down: Tensor
    x: Tensor
    shares: Tensor
    inner: Tensor
    halves: Tensor
    results: Tensor
    y: Tensor


def choice(count: int, rows: int, experts: int = EXPERTS, top: int = TOP) -> Tensor:
    """ids [rows, top] int32 of `count` distinct experts drawn at random, distinct in a row."""
    drawn = torch.randperm(experts)[:count].sort()[0]
    return drawn[torch.arange(rows * top) % count].view(rows, top).int()


def order(ids: Tensor) -> Order:
    """Of ids [rows, top]. The lists are as long as SGLang makes them: most of it is unused."""
    flat, none = ids.flatten().tolist(), ids.numel()
    tokens, experts = [], []
    for e in sorted(set(flat)):
        own = [i for i, x in enumerate(flat) if x == e]
        own += [none] * (-len(own) % BLOCK)
        tokens += own
        experts += [e] * (len(own) // BLOCK)
    padded = len(tokens)
    tokens += [none] * (none * BLOCK - padded)
    experts += [0] * (none - len(experts))
    made = (torch.tensor(t, dtype=torch.int32) for t in (tokens, experts, [padded]))
    return Order(*made)


def layer(
    rows: int, device: torch.device | str, dtype: torch.dtype = torch.bfloat16,
    sizes: tuple[int, int, int, int] = (EXPERTS, HIDDEN, WIDTH, TOP),
) -> Layer:  # fmt: skip
    """Random weights; sizes: experts, hidden, width and how many a token has."""
    experts, hidden, width, top = sizes

    def normal(*shape: int, size: float = 1.0) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=device).normal_(0.0, size)

    shares = torch.full((rows, top), 1 / top, device=device)
    return Layer(
        normal(experts, 2 * width, hidden, size=hidden**-0.5),
        normal(experts, hidden, width, size=width**-0.5), normal(rows, hidden), shares,
        normal(rows * top, 2 * width), normal(rows * top, width), normal(rows, top, hidden),
        normal(rows, hidden),
    )  # fmt: skip


def serve(kernels: ModuleType, a: Layer, ids: Tensor, by: Order) -> None:
    """y of x, as SGLang launches it."""
    kind = {torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}[a.x.dtype]
    lists: tuple[Any, ...] = (a.shares, ids, *by)
    product = kernels.invoke_fused_moe_kernel
    none = (None, None, None)  # scales and zero points
    product(a.x, a.up, None, a.inner, *none, *lists, False, ids.shape[1], CONFIG,
            compute_type=kind, **PLAIN)  # fmt: skip
    kernels.act_and_mul_triton(a.inner, a.halves, CONFIG)
    product(a.halves, a.down, None, a.results, *none, *lists, True, 1, CONFIG,
            compute_type=kind, **PLAIN)  # fmt: skip
    kernels.moe_sum_reduce_triton(a.results, a.y, 1.0)


def measure(kernels: ModuleType, clock: Clock) -> Iterator[dict[str, Any]]:
    """A record a number of distinct experts; at TOP of them there is one token, else ROWS."""
    both = {rows: layer(rows, "cuda") for rows in (1, ROWS)}
    for count in DISTINCT:
        a = both[1 if count == TOP else ROWS]
        record: dict[str, Any] = {"name": f"SGLang 0.5.16 fused_moe, U = {count}", "config": ""}
        try:
            record["us"] = round(clock([_call(kernels, a, count) for _ in range(CALLS)]), 2)
        except Exception as error:
            record["failed"] = repr(error)[:300]
        yield record


def _call(kernels: ModuleType, a: Layer, count: int) -> Callable[[], None]:
    ids = choice(count, len(a.x))
    by = Order(*(t.cuda() for t in order(ids)))
    return partial(serve, kernels, a, ids.cuda(), by)


def stub() -> None:
    """What its file of kernels imports and does not need here."""
    nothing = dict.fromkeys(
        ("per_token_group_quant_fp8", "scaled_fp8_quant", "sglang_per_token_group_quant_fp8",
         "per_token_group_quant_int8", "per_token_quant_int8", "sglang_per_token_group_quant_int8")
    )  # fmt: skip
    no = {
        "is_batch_invariant_mode_enabled": lambda: False, "get_moe_padding_size": lambda _: 0,
        "cpu_has_amx_support": lambda: False, "get_bool_env_var": lambda *_: False,
        "is_cpu": lambda: False, "is_cuda": lambda: True, "is_hip": lambda: False,
        "is_sm90_supported": lambda *_: True,
    }  # fmt: skip
    for name in (
        "sglang.kernels.ops.quantization.fp8_kernel", "sglang.kernels.ops.quantization.int8_kernel",
        "sglang.srt.batch_invariant_ops", "sglang.srt.layers.moe.utils", "sglang.srt.utils",
    ):  # fmt: skip
        module = sys.modules.setdefault(name, types.ModuleType(name))
        vars(module).update({k: v for k, v in (nothing | no).items() if not hasattr(module, k)})
