"""How likely a draft is accepted, from what the drafter says of it (paper appendix A.2).

Confidence is calibrated by an isotonic curve a position; a logistic model adds position and
entropy. On tensors throughout, so that nothing is read back from a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

MIN_ENTROPY = 1e-6  # nats; below it a logarithm says nothing
TERMS = ("bias", "log odds", "position", "log odds x position", "log1p entropy", "log change")
EDGE = 1e-6  # probabilities are kept this far from 0 and 1 where their odds are taken


@dataclass(frozen=True)
class IsotonicCurves:
    """One monotone curve a draft position, linear between knots and flat beyond them.

    x, y: [D, K] ascending along K; a position with fewer knots repeats its last one.
    """

    x: Tensor
    y: Tensor

    def __call__(self, confidence: Tensor) -> Tensor:
        """Confidence [..., M] of drafts 1..M <= D -> calibrated confidence [..., M]."""
        drafts = confidence.shape[-1]
        x, y = self.x[:drafts], self.y[:drafts]
        columns = confidence.reshape(-1, drafts).t().contiguous()  # [M, N]
        right = torch.searchsorted(x, columns).clamp_(1, x.shape[1] - 1)
        low, high = x.gather(1, right - 1), x.gather(1, right)
        part = ((columns - low) / (high - low).clamp_min(1e-12)).clamp_(0, 1)
        out = torch.lerp(y.gather(1, right - 1), y.gather(1, right), part)
        return out.t().reshape(confidence.shape)


@lru_cache(maxsize=8)
def _averaging(drafts: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """[M, M]: row i gives hbar_i from h_1..h_M, so that one product replaces a loop."""
    rows = [torch.eye(drafts, dtype=torch.float64)[0]]
    for i in range(drafts - 1):
        rows.append((torch.eye(drafts, dtype=torch.float64)[i] + rows[-1]) / 2)
    return torch.stack(rows).to(device, dtype)


def mean_entropy_before(entropy: Tensor) -> Tensor:
    """The moving average of the drafts before each one: hbar_{i-1} for i = 1..M, [..., M].

    hbar_0 = h_1 and hbar_i = (h_i + hbar_{i-1}) / 2 (appendix A.2).
    """
    h = entropy.clamp_min(MIN_ENTROPY)
    return h @ _averaging(h.shape[-1], h.dtype, h.device).t()


def features(calibrated: Tensor, entropy: Tensor, block: int) -> Tensor:
    """The logistic model's inputs, [..., M, 6] in the order of TERMS.

    The calibrated confidence enters by its log-odds, so that the isotonic curves alone are among
    the models (the paper does not say in which form it takes it).

    Args:
        calibrated: [..., M] isotonic confidences.
        entropy: [..., M] nats.
        block: D, the drafts of a whole block; position i counts as i / D.
    """
    h = entropy.clamp_min(MIN_ENTROPY)
    steps = torch.arange(1, h.shape[-1] + 1, device=h.device, dtype=h.dtype) / block
    position = steps.expand_as(h)
    change = (h / mean_entropy_before(h)).log()
    odds = calibrated.logit(EDGE)
    terms = (torch.ones_like(h), odds, position, odds * position, h.log1p(), change)
    return torch.stack(terms, -1)


@dataclass(frozen=True)
class AcceptanceModel:
    """c_i, the probability that draft i is accepted once those before it are.

    curves: the isotonic curves. weights: [6] of the logistic model, in the order of TERMS.
    """

    curves: IsotonicCurves
    weights: Tensor

    @property
    def block(self) -> int:
        """D."""
        return self.curves.x.shape[0]

    def conditional(self, confidence: Tensor, entropy: Tensor) -> Tensor:
        """c_1..c_M, [..., M], from top-1 confidence and entropy [..., M]: where the model is, which
        is on the host for a length that the host chooses."""
        calibrated = self.curves(confidence.to(self.weights))
        terms = features(calibrated, entropy.to(self.weights), self.block)
        return (terms @ self.weights).sigmoid()

    def prefix(self, confidence: Tensor, entropy: Tensor) -> Tensor:
        """p_1..p_M: p_i is the probability that the first i drafts are accepted (section 3.1)."""
        return self.conditional(confidence, entropy).cumprod(-1)

    def to(self, device: torch.device | str) -> AcceptanceModel:
        """The same model on a device."""
        curves = IsotonicCurves(self.curves.x.to(device), self.curves.y.to(device))
        return AcceptanceModel(curves, self.weights.to(device))
