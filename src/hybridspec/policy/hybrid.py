"""HybridSpec's policy: the draft-side selector, and the correction at the router boundary.

Source: paper sections 3.2 and 3.3. Without tables it is the paper's `nominal-only`.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from hybridspec.core import Proposal
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.length import Choice
from hybridspec.policy.objective import CorrectionTables, correct, select


@dataclass(frozen=True)
class ThroughputPolicy:
    """Equation 5 before Stage 0 and, with tables, equation 6 after it.

    Attributes:
        acceptance: the calibrated model of the pair.
        cost: [W + 1] C_tgt(w) of the runtime at index w, ms.
        rho: its pooled rate, tokens a ms.
        tables: for the correction; None leaves w0 as it is.
        longest: W.
    """

    acceptance: AcceptanceModel
    cost: Tensor
    rho: float
    tables: CorrectionTables | None
    longest: int
    scored: bool = True

    def drafts(self) -> int:
        """A whole block: the choice among lengths comes after it."""
        return self.longest - 1

    @property
    def lookahead(self) -> int:
        """Stage 0 runs one input more where a correction may add it."""
        return 0 if self.tables is None else 1

    def select(self, proposal: Proposal | None) -> Choice:
        """w0 by equation 5; 1 when nothing was drafted."""
        if proposal is None:
            return Choice(1)
        assert proposal.confidence is not None
        assert proposal.entropy is not None
        prefix = self.acceptance.prefix(proposal.confidence, proposal.entropy)
        return Choice(int(select(prefix, self.cost, self.rho)), prefix)

    def correct(self, choice: Choice, experts: Tensor) -> int:
        """w_c by equation 6, from layer 0's experts [u, k]."""
        if self.tables is None or choice.prefix is None or len(experts) <= choice.w0:
            return choice.w0
        return int(correct(choice.w0, experts, choice.prefix, self.cost, self.rho, self.tables))
