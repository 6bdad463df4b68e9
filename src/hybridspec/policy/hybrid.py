"""HybridSpec's policy: the draft-side selector, and the correction at the router boundary.

Source: paper sections 3.2 and 3.3. Without tables it is the paper's `nominal-only`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy import host, objective
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.length import Choice
from hybridspec.policy.objective import CorrectionTables


@dataclass(frozen=True)
class ThroughputPolicy:
    """Equation 5 before Stage 0 and, with tables, equation 6 after it.

    Attributes:
        acceptance: the calibrated model of the pair.
        cost: [W + 1] C_tgt(w) of the runtime at index w, ms.
        rho: its pooled rate, tokens a ms.
        tables: for the correction; None leaves w0 as it is.
        longest: one more than the drafts it asks for, W or less.
        shrink, ahead: beyond the paper, whose values are the defaults. Whether the look at the
            router may also shorten the round, and how many inputs beyond w0 it looks at.
    """

    acceptance: AcceptanceModel
    cost: Tensor
    rho: float
    tables: CorrectionTables | None
    longest: int
    scored: bool = True
    shrink: bool = False
    ahead: int = 1

    def drafts(self) -> int:
        """The same number every round: the choice among lengths comes after the drafter."""
        return self.longest - 1

    @property
    def lookahead(self) -> int:
        """Stage 0 runs one input more where a correction may add it; `ahead` of them if asked."""
        return 0 if self.tables is None else self.ahead

    def select(self, proposal: Proposal | None) -> Choice:
        """w0 by equation 5; 1 when nothing was drafted."""
        if proposal is None:
            return Choice(1)
        confidence, entropy = proposal.confidence, proposal.entropy
        assert confidence is not None
        assert entropy is not None
        if confidence.is_cpu:
            known = self._host.prefix(confidence.tolist(), entropy.tolist())
            return Choice(host.select(known, self._costs, self.rho), known)
        prefix = self.acceptance.prefix(confidence, entropy)
        return Choice(int(objective.select(prefix, self.cost, self.rho)), prefix)

    def scores(self, prefix: Sequence[float]) -> dict[int, float]:
        """G(w) - rho C(w) of every length from 2, given p_1..p_M."""
        return host.scores(prefix, self._costs, self.rho)

    def reason(self) -> str:
        """What it goes by."""
        form = f"the highest G(w) - rho C(w), rho = {self.rho:.3f} tokens a ms"
        if self.tables is None:
            return form
        again = "one more draft" if self._papers_form else f"up to {self.ahead} more drafts"
        fewer = " or fewer" if self.shrink else ""
        return f"{form}; then perhaps {again}{fewer}, by layer 0's experts"

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """w_c by equation 6, from layer 0's experts [u, k]; by its wider form where asked."""
        w0, prefix, rho = choice.w0, choice.prefix, self.rho
        if self.tables is None or prefix is None or (len(experts) <= w0 and not self.shrink):
            return w0
        if isinstance(prefix, list):
            known = w0, experts.tolist(), prefix, self._costs, rho, self._tables
            if self._papers_form:
                return host.correct(*known)
            return host.reconsider(*known, shrink=self.shrink)
        seen = w0, experts, prefix, self.cost, rho, self.tables
        if self._papers_form:
            return int(objective.correct(*seen))
        return int(objective.reconsider(*seen, shrink=self.shrink))

    @property
    def _papers_form(self) -> bool:
        return self.ahead == 1 and not self.shrink

    @cached_property
    def _host(self) -> host.HostAcceptance:
        return host.HostAcceptance.of(self.acceptance)

    @cached_property
    def _costs(self) -> list[float]:
        costs: list[float] = self.cost.tolist()
        return costs

    @cached_property
    def _tables(self) -> host.HostTables:
        assert self.tables is not None
        return host.HostTables.of(self.tables)
