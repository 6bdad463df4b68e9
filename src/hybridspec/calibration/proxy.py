"""What layer 0's experts say of later layers' (paper appendix D.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Proxy:
    """n_0 against n_>0 over `tokens` drafts, each position's mean subtracted from both.

    correlation: Pearson's. slope: new (layer, expert) pairs in later layers a new layer-0 expert,
    by least squares.
    """

    correlation: float
    slope: float
    tokens: int


def layer0_proxy(new: NDArray[np.integer[Any]]) -> Proxy | None:
    """How well new layer-0 experts predict new pairs in the layers after it.

    Args:
        new: [N, L, W] as `cost.new_in_row` gives it; row 0, the anchor, is left out.

    Returns:
        None where either count never varies at a position.
    """
    first, later = (t.astype(np.float64) for t in (new[:, 0, 1:], new[:, 1:, 1:].sum(1)))
    x, y = first - first.mean(0), later - later.mean(0)
    xx, xy, yy = float((x * x).sum()), float((x * y).sum()), float((y * y).sum())
    if not xx or not yy:
        return None
    return Proxy(xy / (xx * yy) ** 0.5, xy / xx, x.size)
