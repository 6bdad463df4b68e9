"""From logits to the target's tokens, and how many drafts they confirm (paper C.3, coupled).

The target's token y at a position is drawn from its own distribution with the uniform number that
belongs to (seed, position), and a draft is accepted iff it equals y. So the emitted tokens are y
whatever was drafted, and a seeded answer depends neither on drafts nor on verification lengths.

Probabilities are held as int64 weights: integer sums have no rounding, so the order in which a
device adds them, and the number of rows beside a row, cannot change a draw.

Filters follow transformers and vLLM: temperature, top-k, top-p, min-p, each on what the one before
left. A filter keeps every token that ties with the last one it must keep.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.runtime.philox import uniform

FIRST_CANDIDATES = 128  # most nuclei are smaller; a larger one costs another, longer look
MIN_TEMPERATURE = 1e-30  # what is smaller is 0 in fp32, and 0 / 0 is not a number


def target_tokens(
    logits: Tensor, positions: Tensor, params: SamplingParams, seed: int | Tensor = 0
) -> Tensor:
    """The target's token at each position. A row's token depends on no other row.

    Args:
        logits: [w, V], floating point.
        positions: [w] int64, the index in the sequence of the token that each row predicts.
        params: temperature 0 takes the most likely token, the first of equals.
        seed: 64 bits (see `philox.uniform`); unused when greedy.

    Returns:
        [w] int64.

    Raises:
        HybridSpecError: a row has no finite largest logit; the message names its position.
    """
    top, most_likely = logits.max(dim=-1)
    _check_finite(top, positions)
    if params.greedy:
        return most_likely
    return draw(weights(logits, params), uniform(seed, positions))


def weights(logits: Tensor, params: SamplingParams) -> Tensor:
    """The distribution that is sampled, as integers in proportion to the probabilities.

    The largest weight of a row is 2^(62 - bits of V), so no sum over a row overflows. Rounding down
    loses less than 2^-43 of the largest probability a token at V = 248,320, which is below fp32.

    Args:
        logits: [w, V], each row with a finite maximum.
        params: temperature above 0, and the filters.

    Returns:
        [w, V] int64; 0 where a token was dropped.
    """
    z = logits if logits.dtype == torch.float64 else logits.float()
    z = (z - z.amax(-1, keepdim=True)) / max(params.temperature, MIN_TEMPERATURE)
    vocabulary = z.shape[-1]
    mass = (z.exp_() * 2.0 ** (62 - vocabulary.bit_length())).long()
    if 0 < params.top_k < vocabulary:
        mass = _keep(mass, logits >= logits.topk(params.top_k).values[:, -1:])
    if params.top_p < 1.0:
        mass = _keep(mass, mass >= _nucleus_floor(mass, params.top_p))
    if params.min_p > 0.0:
        mass = _keep(mass, mass >= params.min_p * mass.amax(-1, keepdim=True).double())
    return mass


def draw(mass: Tensor, u: Tensor) -> Tensor:
    """Inverse CDF: the first token at which the running weight passes u times the total.

    Args:
        mass: [w, V] int64 weights, each row with a positive total below 2^62.
        u: [w] float64 in [0, 1).

    Returns:
        [w] int64; never a token of weight 0.
    """
    running = mass.cumsum(-1)
    # u is at most 1 - 2^-53, so the product stays below the total even where float64 rounds both.
    point = (u * running[:, -1]).long()
    return torch.searchsorted(running, point[:, None], right=True)[:, 0]


def accept(proposal: Tensor, y: Tensor) -> Tensor:
    """A, the number of leading drafts that equal the target's tokens.

    Args:
        proposal: [M] int64, d_1..d_M.
        y: [M + 1] int64, the target's tokens y_1..y_{M+1}.

    Returns:
        int64 scalar in 0..M, on the device of its arguments.
    """
    return (proposal == y[:-1]).long().cumprod(0).sum()


def _keep(mass: Tensor, kept: Tensor) -> Tensor:
    return mass.where(kept, 0)


def _nucleus_floor(mass: Tensor, top_p: float) -> Tensor:
    """[w, 1] int64: the least weight inside the smallest set of tokens that holds top_p.

    Looks at the few largest weights first. Sums are exact, so a longer look finds the same floor.
    """
    wanted = mass.sum(-1, keepdim=True).double() * top_p
    count = FIRST_CANDIDATES
    while True:
        largest = mass.topk(min(count, mass.shape[-1])).values
        reached = largest.cumsum(-1) >= wanted
        if bool(reached[:, -1].all()):  # all tokens reach it, since top_p is below 1
            return largest.gather(-1, reached.long().argmax(-1, keepdim=True))
        count *= 16


def _check_finite(top: Tensor, positions: Tensor) -> None:
    """Refuse rows that cannot be sampled: the maximum shows NaN, infinity, all-minus-infinity."""
    bad = ~top.isfinite()
    if bool(bad.any()):
        row = int(bad.long().argmax())
        raise HybridSpecError(
            f"The logits at position {int(positions[row])} have the maximum {float(top[row])}; "
            "a finite number was expected. Either the weights are damaged or the data type is too "
            "narrow: check the checkpoint, or try float32."
        )
