"""What a length costs: the curve C_tgt(w), experts' share of it, and the tables of equation 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hybridspec.calibration.trace import Trace

FEWEST = 30  # tokens of a table cell; cells with fewer take the position's linear fit
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """a + b w + c w^2 and how well it fits: root mean square error in the unit of the data."""

    coefficients: tuple[float, float, float]
    error: float

    def __call__(self, w: Floats | NDArray[np.integer[Any]]) -> Floats:
        """The fitted values."""
        a, b, c = self.coefficients
        return a + b * w + c * np.square(w, dtype=np.float64)


def fit_quadratic(w: NDArray[np.integer[Any]], ms: Floats) -> Quadratic:
    """Least squares over measured lengths (appendix A.2)."""
    c, b, a = np.polyfit(w.astype(np.float64), ms, 2)
    fitted = Quadratic((float(a), float(b), float(c)), 0.0)
    return Quadratic(fitted.coefficients, float(np.sqrt(np.mean((fitted(w) - ms) ** 2))))


@dataclass(frozen=True)
class Line:
    """intercept + slope x, with the coefficient of determination."""

    intercept: float
    slope: float
    r2: float


def fit_line(x: Floats, y: Floats) -> Line:
    """Least squares; r2 is 1 where y does not vary and the line meets it."""
    if np.ptp(x) == 0:
        return Line(float(y.mean()), 0.0, 0.0)
    slope, intercept = np.polyfit(x, y, 1)
    rest = float(np.sum((y - intercept - slope * x) ** 2))
    spread = float(np.sum((y - y.mean()) ** 2))
    return Line(float(intercept), float(slope), 1 - rest / spread if spread else 1.0)


def new_in_row(experts: NDArray[np.uint16]) -> NDArray[np.int64]:
    """[N, L, W] experts of each input that no earlier input of its round chose, from [N, L, W, k].

    Summed over inputs up to w this is U(w), the distinct experts of a layer.
    """
    n, layers, rows, k = experts.shape
    out = np.empty((n, layers, rows), np.int64)
    for row in range(rows):
        mine = experts[:, :, row, :, None, None]
        before = experts[:, :, None, :row]
        out[:, :, row] = k - (mine == before).any((-1, -2)).sum(-1)
    return out


def expert_tables(trace: Trace) -> tuple[Floats, Floats]:
    """nbar_all(w) [W] and nbar_all(w | n) [W, k + 1]: pairs that the input after w others adds.

    Index w is the row of draft d_w; row 0, the anchor, is never asked for. Layer 0's own new
    experts and, over all later layers, the average of new pairs: given n, from the cell's tokens
    where there are FEWEST, by the position's linear fit elsewhere (appendix A.2).
    """
    new = new_in_row(trace.experts)
    first, later = new[:, 0], new[:, 1:].sum(1)
    rows, k = first.shape[1], trace.experts.shape[-1]
    mean, given = np.zeros(rows), np.zeros((rows, k + 1))
    counts = np.arange(k + 1)
    for w in range(1, rows):
        n, rest = first[:, w], later[:, w].astype(np.float64)
        mean[w] = n.mean() + rest.mean()
        line = fit_line(n.astype(np.float64), rest)
        given[w] = counts + line.intercept + line.slope * counts
        for value in counts:
            if (n == value).sum() >= FEWEST:
                given[w, value] = value + rest[n == value].mean()
    return mean, given
