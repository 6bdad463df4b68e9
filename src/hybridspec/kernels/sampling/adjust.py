"""Logit bias, penalties and the mask of allowed tokens, in place, in front of `sample`; and what
the penalties count. `naive.py` has the law."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hybridspec.kernels.early import options, take_turn
from hybridspec.kernels.linear.config import ROWS
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.kernels.sampling.naive import Penalties


class Adjustment(NamedTuple):
    """seen [V] int32: how often each token stands in prompt and answer, the anchor included.
    answered [V] int32: in the answer. settings [4] fp32: repetition, presence, frequency, and
    whether there is a bias (1 or 0). bias [V] fp32: added to every row."""

    seen: Tensor
    answered: Tensor
    settings: Tensor
    bias: Tensor

    @classmethod
    def empty(cls, vocabulary: int, device: torch.device | str) -> Adjustment:
        """Memory for a request that adjusts nothing: 3 MB for a vocabulary of 248,320."""
        whole = {"dtype": torch.int32, "device": device}
        return cls(
            torch.zeros(vocabulary, **whole), torch.zeros(vocabulary, **whole),
            torch.tensor([1.0, 0.0, 0.0, 0.0], device=device),
            torch.zeros(vocabulary, device=device),
        )  # fmt: skip

    def set(
        self, penalties: Penalties, bias: dict[int, float], prompt: Tensor, answer: Tensor
    ) -> None:
        """Write a request into this memory, from the host. prompt, answer: [n] int64 ids."""
        for counts, ids in ((self.seen, torch.cat([prompt, answer])), (self.answered, answer)):
            counts.copy_(torch.bincount(ids, minlength=len(counts)))
        self.settings.copy_(torch.tensor([*penalties, float(bool(bias))]))
        self.bias.zero_()
        if bias:
            ids = torch.tensor(list(bias), device=self.bias.device)
            self.bias[ids] = torch.tensor(list(bias.values()), device=self.bias.device)


@triton.jit
def _adjust(  # type: ignore[no-untyped-def]
    logits, stride, length, inputs, seen, answered, settings, bias, allowed, V, WORDS,
    MASKED: tl.constexpr, CHUNK: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    take_turn(EARLY)
    first, row = tl.program_id(0) * CHUNK, tl.program_id(1)
    if row >= tl.load(length):
        return
    repetition, presence = tl.load(settings), tl.load(settings + 1)
    frequency, biased = tl.load(settings + 2), tl.load(settings + 3)
    counted = (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0)
    idle = (biased == 0.0) & ((counted == 0) & (not MASKED))
    if idle:
        return
    token = first + tl.arange(0, CHUNK)
    known = token < V
    at = logits + row * stride + token
    x = tl.load(at, mask=known, other=0.0).to(tl.float32)
    if biased != 0.0:
        x += tl.load(bias + token, mask=known, other=0.0)
    if counted:
        own = tl.load(answered + token, mask=known, other=0)
        total = tl.load(seen + token, mask=known, other=0)
        for i in range(1, row + 1):
            draft = tl.load(inputs + i)
            if (draft >= first) & (draft < first + CHUNK):
                hit = (token == draft).to(tl.int32)
                own, total = own + hit, total + hit
        repeated = tl.where(x > 0.0, tl.div_rn(x, repetition), x * repetition)
        x = tl.where(total > 0, repeated, x)
        x -= frequency * own.to(tl.float32)
        x -= tl.where(own > 0, presence, 0.0)
    if MASKED:
        word = tl.load(allowed + row * WORDS + token // 32, mask=known, other=0)
        x = tl.where(((word >> (token % 32)) & 1) != 0, x, -float("inf"))
    tl.store(at, x.to(logits.dtype.element_ty), mask=known)


@triton.jit
def _count(tokens, kept, seen, answered, LANES: tl.constexpr, EARLY: tl.constexpr):  # type: ignore[no-untyped-def]
    take_turn(EARLY)
    i = tl.arange(0, LANES)
    there = i < tl.load(kept)
    token = tl.load(tokens + i, mask=there, other=0)
    tl.atomic_add(seen + token, 1, mask=there)  # of integers: in any order the same
    tl.atomic_add(answered + token, 1, mask=there)


def adjust(
    logits: Tensor, length: Tensor, inputs: Tensor, what: Adjustment, allowed: Tensor | None = None,
    config: SampleConfig | None = None, *, early: bool = False,
) -> None:  # fmt: skip
    """Adjust the first `length` rows in place. Row i counts drafts 1..i as if emitted.

    Args:
        logits: [16, V] fp32; a row is contiguous.
        length: [] int32 on the device.
        inputs: [16] int64: the anchor, which `what` has counted, and the drafts.
        allowed: [16, ceil(V / 32)] int32, contiguous: bit b of word i of a row is set where token
            32 i + b may come there (as xgrammar packs it). None allows all.
        early: as in `kernels/early.py`.
    """
    vocabulary = logits.shape[1]
    c = config or SampleConfig.choose(vocabulary)
    _adjust[(c.chunks(vocabulary), ROWS)](
        logits, logits.stride(0), length, inputs, *what, allowed, vocabulary,
        triton.cdiv(vocabulary, 32), allowed is not None, c.chunk, early,
        num_warps=c.warps, enable_fp_fusion=False, **options(early),
    )  # fmt: skip


def count(tokens: Tensor, kept: Tensor, what: Adjustment, *, early: bool = False) -> None:
    """Count the first `kept` ([] int32 on the device, at most 16) of the emitted tokens [16] int64,
    in prompt and answer and in the answer."""
    _count[(1,)](tokens, kept, what.seen, what.answered, ROWS, early, num_warps=1, **options(early))
