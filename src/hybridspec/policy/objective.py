"""The throughput objective: which length to verify, and whether to add a token at the router.

Lengths w count target inputs, the anchor included. Source: paper equations 4 to 6 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHORTEST = 2  # the selector's lengths are 2..W: a round that drafted verifies at least one draft


def expected_tokens(prefix: Tensor) -> Tensor:
    """G(w) for w = 1..M + 1, [..., M + 1]: one token, and each draft with the probability of its
    prefix p_i [..., M] (section 3.1)."""
    ones = torch.ones_like(prefix[..., :1])
    return torch.cat((ones, prefix), -1).cumsum(-1)


def select(prefix: Tensor, cost: Tensor, rho: float | Tensor, shortest: int = SHORTEST) -> Tensor:
    """w0 = argmax over w of G(w) - rho C(w), ties to the shorter (equation 5). Int64, [...].

    Args:
        prefix: [..., M] p_1..p_M.
        cost: [W + 1] C(w) in ms at index w; entries below `shortest` are not read. W >= M + 1.
        rho: tokens a ms.
        shortest: the least length among the choices.
    """
    lengths = prefix.shape[-1] + 1
    score = expected_tokens(prefix) - rho * cost[1 : lengths + 1]
    score = score[..., shortest - 1 :]
    best = score == score.amax(-1, keepdim=True)
    return best.long().argmax(-1) + shortest


def new_experts(experts: Tensor, row: int | Tensor) -> Tensor:
    """n_new = U_0(row + 1) - U_0(row): experts of a row that no row before it chose.

    experts: [u, k] int64, distinct in a row; row in 1..u - 1 may be a tensor on the device.
    """
    rows = torch.arange(experts.shape[0], device=experts.device)
    mine = experts.index_select(0, torch.as_tensor(row, device=experts.device).reshape(1))[0]
    same = (mine[:, None, None] == experts[None]) & (rows < row)[None, :, None]
    return (~same.flatten(1).any(1)).sum()


@dataclass(frozen=True)
class CorrectionTables:
    """What equation 6 needs of a runtime and a pair.

    step_ms: s, what one more token costs Stage 0. expert_ms: eta, one more distinct (layer, expert)
    pair. mean: [W] nbar_all(w) at index w, the pairs that draft d_w adds on average. given: [W, k +
    1] nbar_all(w | n) at [w, n] for n new experts in layer 0.
    """

    step_ms: float
    expert_ms: float
    mean: Tensor
    given: Tensor

    def added_cost(self, w0: Tensor, new: Tensor, cost: Tensor) -> Tensor:
        """Delta L_c, ms: what Stage 1 costs more at w0 + 1, with n_new known."""
        curve = cost[w0 + 1] - cost[w0] - self.step_ms
        return curve + self.expert_ms * (self.given[w0, new] - self.mean[w0])


def correct(
    w0: int | Tensor,
    experts: Tensor,
    prefix: Tensor,
    cost: Tensor,
    rho: float | Tensor,
    tables: CorrectionTables,
) -> Tensor:
    """w_c: w0 + 1 if the extra draft is worth its cost now that its experts are known, else w0.

    experts: [u, k] of layer 0; where u <= w0, Stage 0 did not see the extra draft: w0 stays.
    Source: equation 6.
    """
    rows = experts.shape[0]
    w0 = torch.as_tensor(w0, device=experts.device)
    row = w0.clamp(max=rows - 1)  # an index that exists, whatever comes of it
    added = tables.added_cost(row, new_experts(experts, row), cost)
    worth = prefix[row - 1] > rho * added
    return w0 + (worth & (w0 < rows)).long()


def pooled_rate(prefix: Tensor, cost: Tensor, fixed: float, choices: Tensor) -> Tensor:
    """Equation 4: expected tokens over expected ms of rounds [N, M] at lengths [N]."""
    tokens = expected_tokens(prefix).gather(-1, (choices - 1)[:, None]).sum()
    return tokens / (cost[choices] + fixed).sum()


def best_rate(prefix: Tensor, cost: Tensor, fixed: float, shortest: int = SHORTEST) -> float:
    """rho: the fixed point of Dinkelbach's iteration over rounds [N, M], tokens a ms.

    Each step chooses every round's best length at the rate so far, then takes the rate of these
    choices. The rate never falls and ends at the maximum of equation 4, after finitely many steps.

    cost: [W + 1] C_tgt, ms. fixed: what a round costs at any length, ms.
    """
    rate, choices = 0.0, None
    while True:
        new = select(prefix, cost, rate, shortest)
        if choices is not None and bool((new == choices).all()):
            return rate
        choices, rate = new, float(pooled_rate(prefix, cost, fixed, new))
