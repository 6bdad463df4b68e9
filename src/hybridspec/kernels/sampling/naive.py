"""Sampling in plain torch: the law that the kernels of this folder must obey."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.runtime.philox import uniform
from hybridspec.runtime.sampling import target_tokens, weights

# Of a mass, relative: the law rounds its exponential to fp32 and so does the kernel, each within
# three units in the last place (2^-23) of the exact value, from the same exponent.
ERROR = 6 * 2.0**-23


class Penalties(NamedTuple):
    """repetition: above 1 makes tokens of prompt and answer less likely. presence: taken off a
    logit whose token is in the answer; frequency: for every time it is there."""

    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0


def sample(
    logits: Tensor, positions: Tensor, params: SamplingParams, seed: int
) -> tuple[Tensor, Tensor]:
    """The token of each row, and which rows cannot be sampled.

    Args:
        logits: [w, V].
        positions: [w] int64, of the tokens that the rows predict.

    Returns:
        [w] int64, 0 where a row has no finite largest logit; [w] int32, 1 there and else 0.
    """
    tokens, bad = torch.zeros_like(positions), torch.zeros_like(positions, dtype=torch.int32)
    for i in range(len(logits)):
        try:
            tokens[i] = target_tokens(logits[i : i + 1], positions[i : i + 1], params, seed)[0]
        except HybridSpecError:
            bad[i] = 1
    return tokens, bad


def adjust(
    logits: Tensor, inputs: Tensor, seen: Tensor, answered: Tensor, penalties: Penalties,
    bias: Tensor | None = None, allowed: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Bias, penalties and the mask of allowed tokens, row after row, in the order of transformers
    and vLLM: bias, repetition, frequency, presence.

    Row i predicts what follows inputs 0..i. Input 0, the anchor, is counted already; the drafts
    1..i count as if they had been emitted.

    Args:
        logits: [w, V] fp32.
        inputs: [w] int64.
        seen: [V] int32, how often each token stands in prompt and answer. answered: in the answer.
        bias: [V] fp32, added to every row.
        allowed: [w, ceil(V / 32)] int32: bit b of word i is set where token 32 i + b may come.

    Returns:
        [w, V] fp32.
    """
    out = logits.clone()
    for i, row in enumerate(out):
        drafts = torch.bincount(inputs[1 : i + 1], minlength=len(row)).int()
        before, own = seen + drafts, answered + drafts
        if bias is not None:
            row += bias
        repeated = torch.where(row > 0, row / penalties.repetition, row * penalties.repetition)
        row.copy_(torch.where(before > 0, repeated, row))
        row -= penalties.frequency * own.float()
        row -= penalties.presence * (own > 0).float()
        if allowed is not None:
            row[~_unpacked(allowed[i], len(row))] = -torch.inf
    return out


def _unpacked(words: Tensor, count: int) -> Tensor:
    """[count] bool of the bits of int32 words, lowest first."""
    bits = (words[:, None] >> torch.arange(32, device=words.device)) & 1
    return bits.flatten()[:count].bool()


def undecided(
    logits: Tensor, positions: Tensor, params: SamplingParams, seed: int, error: float
) -> Tensor:
    """[w] bool: rows whose draw, or a filter of it, changes where masses err by so much.

    Args:
        error: of a mass relative to itself. A share of the total errs by twice that, for the total
            errs as well.
    """
    mass = weights(logits, params)
    running = mass.cumsum(-1).double() / mass.sum(-1, keepdim=True)
    near = (running - uniform(seed, positions)[:, None]).abs() <= 2 * error
    found = near.any(-1)
    before = weights(logits, SamplingParams(temperature=params.temperature, top_k=params.top_k))
    if params.top_p < 1.0:
        ordered = before.sort(-1, descending=True).values
        share = ordered.cumsum(-1).double() / ordered.sum(-1, keepdim=True)
        found |= ((share - params.top_p).abs() <= 2 * error).any(-1)
        last = ordered.gather(-1, (share >= params.top_p).long().argmax(-1, keepdim=True))
        ties = (before - last).abs() <= 2 * error * last  # of the last of the nucleus, or almost
        found |= ties.sum(-1) > 1
    if params.min_p > 0.0:
        ratio = before.double() / before.amax(-1, keepdim=True)
        found |= ((ratio - params.min_p).abs() <= 2 * error).any(-1)
    return found
