"""What a scripted target's routing and logits are like; printed with every run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hybridspec.bench.scripted.paper import CORRELATED
from hybridspec.calibration.cost import new_in_row
from hybridspec.calibration.proxy import layer0_proxy
from hybridspec.model.target import Step, Target
from hybridspec.runtime.state import TargetState, W

LENGTHS = (1, 4, 8, 16)
ROWS = 128  # of logits at once


@dataclass(frozen=True, slots=True)
class Routing:
    """Blocks of inputs as the target saw them.

    experts: [N, L, W, k] unsigned, of every input in every layer. ratio: the stream's way from the
    embedding, by the embedding. margin: of every input's logits, the best less the second best, by
    the best; mean and least. right: whether the best is always the successor.
    """

    experts: NDArray[np.uint16]
    ratio: float
    margin: float
    least_margin: float
    right: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """distinct: U, the mean distinct experts of a layer by w. correlation, slope: new layer-0
    experts of a draft against its new pairs in later layers."""

    correlation: float
    slope: float
    distinct: dict[int, float]
    ratio: float
    margin: float
    least_margin: float

    @classmethod
    def of(cls, routing: Routing) -> Facts:
        """From blocks."""
        new = new_in_row(routing.experts)
        proxy = layer0_proxy(new)
        counts = new.mean((0, 1)).cumsum()
        return cls(
            proxy.correlation if proxy else 0.0, proxy.slope if proxy else 0.0,
            {w: float(counts[w - 1]) for w in LENGTHS}, routing.ratio, routing.margin,
            routing.least_margin,
        )  # fmt: skip

    @property
    def like_text(self) -> bool:
        """Whether layers correlate as those of real pairs do."""
        return CORRELATED[0] <= self.correlation <= CORRELATED[1]

    def line(self) -> str:
        """For people."""
        distinct = " / ".join(f"{u:.1f}" for u in self.distinct.values())
        lengths = " / ".join(map(str, self.distinct))
        said = (
            f"layers' parts {self.ratio:.2f} of the embedding; layer 0 against later layers: "
            f"correlation {self.correlation:.2f}, slope {self.slope:.1f}; distinct experts a layer "
            f"{distinct} at w = {lengths}; best logit ahead by {100 * self.margin:.0f}% "
            f"(least {100 * self.least_margin:.0f}%)"
        )
        low, high = CORRELATED
        return said if self.like_text else (
            f"{said}. The correlation is outside {low} to {high}: what the routing correction "
            "gains here says nothing of real text"
        )  # fmt: skip


def observe(target: Target, blocks: Tensor, successors: Tensor) -> Routing:
    """Run blocks of inputs [N, W] behind each other, as one prompt."""
    ids = blocks.flatten()
    state = TargetState(target.config, len(ids), device=target.device, dtype=target.dtype)
    target.set_context(len(ids))
    slot = state.slot()
    slot.routes, start = [], target.embedding[ids]
    step, x = Step(slot, target.rope, None), start
    for layer in target.layers:
        x = layer(x, step)
    way = float((x.float() - start.float()).norm() / start.float().norm())
    margins, right = _margins(target, x, successors[ids])
    experts = torch.stack(slot.routes).view(len(target.layers), -1, W, slot.routes[0].shape[1])
    chosen = experts.transpose(0, 1).to(torch.int16).cpu().numpy().astype(np.uint16)
    return Routing(chosen, way, float(margins.mean()), float(margins.min()), right)


def _margins(target: Target, x: Tensor, successors: Tensor) -> tuple[Tensor, bool]:
    """[T] how far the best logit is ahead, as a part of it; whether it is the successor's."""
    margins, right = [], True
    for rows, known in zip(x.split(ROWS), successors.split(ROWS), strict=True):
        top = target.logits(target.final_norm(rows)).topk(2)
        margins.append((top.values[:, 0] - top.values[:, 1]) / top.values[:, 0])
        right = right and bool((top.indices[:, 0] == known).all())
    return torch.cat(margins), right
