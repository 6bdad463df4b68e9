"""The learning policy with equation 6 after Stage 0, at an eta that follows what rounds take.

Whole rounds are all that is timed, and of the experts only layer 0's are known. Their new ones give
the pairs that a round is expected to have beyond its length's average. What the round took beyond
its predicted time, regressed on this expectation, has eta as its slope: the difference between real
and expected pairs is noise that does not depend on the expectation.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from torch import Tensor

from hybridspec.policy import host
from hybridspec.policy.length import Choice
from hybridspec.policy.objective import CorrectionTables
from hybridspec.policy.online import OnlinePolicy

MEMORY = 0.995  # weight of the past a round: a slope needs more rounds than a mean
MOST = 2.0  # times the expected ms that a round may count as having taken


@dataclass
class ExpertCost:
    """eta, ms a distinct (layer, expert) pair, from finished rounds; older ones count less.

    The profile counts as the past: as many rounds as the memory is long, whose surplus spread by
    `spread` and whose times followed `eta` exactly.

    Attributes:
        eta: the estimate; at first the calibrated value.
        spread: standard deviation of a round's surplus pairs, roughly.
    """

    eta: float
    spread: float
    _slowness: float = field(default=1.0, init=False)
    _x: float = field(default=0.0, init=False)
    _y: float = field(default=0.0, init=False)
    _xx: float = field(init=False)
    _xy: float = field(init=False)

    def __post_init__(self) -> None:
        self._xx = self.spread**2
        self._xy = self.eta * self._xx

    def observe(self, ms: float, predicted: float, surplus: float) -> None:
        """Learn from a round of `predicted` ms on average, with so many expected pairs more.

        Times are taken relative to how slow the machine is now, so eta keeps the profile's unit.
        """
        new = 1 - MEMORY
        expected = self._slowness * predicted
        ms = min(ms, MOST * expected)  # something interrupted it
        self._slowness += new * (ms / predicted - self._slowness)
        y = ms / self._slowness - predicted
        dx, dy = surplus - self._x, y - self._y
        self._x, self._y = self._x + new * dx, self._y + new * dy
        self._xx = MEMORY * (self._xx + new * dx * dx)
        self._xy = MEMORY * (self._xy + new * dx * dy)
        if self._xx > 0:
            self.eta = max(0.0, self._xy / self._xx)  # more work never takes less time


@dataclass
class CorrectedOnlinePolicy(OnlinePolicy):
    """`OnlinePolicy` that looks at layer 0's experts of one input more, as the paper's policy does.

    Attributes:
        tables: of equation 6; their eta is the start of the estimate.
        expert_cost: the estimate.
    """

    tables: CorrectionTables | None = None
    expert_cost: ExpertCost = field(init=False)
    _tables: host.HostTables = field(init=False)
    _surplus: float = field(default=0.0, init=False)
    _unused: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.tables is not None
        self.lookahead = 1
        self._tables = host.HostTables.of(self.tables)
        beyond = self.tables.given[1:] - self.tables.mean[1:, None]
        self.expert_cost = ExpertCost(self._tables.expert_ms, float(beyond.std()))

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """w_c by equation 6 at the rate and the eta of now, from layer 0's experts [u, k]."""
        if self._conditional is None or choice.prefix is None:
            return choice.w0
        rows, prefix = experts.tolist(), list(choice.prefix)
        tables = replace(self._tables, expert_ms=self.expert_cost.eta)
        w = host.correct(choice.w0, rows, prefix, self._costs, self.rate, tables)
        new = host.every_new(rows)
        self._surplus = sum(tables.surplus(v, new[v]) for v in range(1, min(w, len(rows))))
        self._unused = max(0, len(rows) - w)
        return w

    def reason(self) -> str:
        """What it goes by."""
        said = super().reason()
        if self.engagement.rest or self._conditional is None:
            return said
        eta = self.expert_cost.eta
        return f"{said}; then perhaps one more draft by layer 0's experts, eta = {eta:.4f}"

    def observe(self, w: int, accepted: int, seconds: float) -> None:
        """Learn from a finished round of w inputs."""
        if self._conditional is not None:
            predicted = self._costs[w] + self.fixed_ms + self._unused * self._tables.step_ms
            self.expert_cost.observe(seconds * 1e3, predicted, self._surplus)
        super().observe(w, accepted, seconds)
