"""The throughput objective: which length to verify, and whether the router changes it.

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


def every_new(experts: Tensor) -> Tensor:
    """`new_experts` of all rows, [u] int64 from [u, k]; row 0 counts all of its own."""
    rows = torch.arange(experts.shape[0], device=experts.device)
    same = experts[:, :, None, None] == experts
    before = rows < rows[:, None]  # [u, u]: the second row comes before the first
    return (~(same & before[:, None, :, None]).flatten(2).any(-1)).sum(-1)


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
        """Delta L_c, ms: what Stage 1 costs more at w0 + 1, with n_new known; [...] as both."""
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


def reconsider(
    w0: int | Tensor,
    experts: Tensor,
    prefix: Tensor,
    cost: Tensor,
    rho: float | Tensor,
    tables: CorrectionTables,
    *,
    shrink: bool,
) -> Tensor:
    """The best length up to u once layer 0's experts of u inputs are known; beyond the paper.

    What Stage 0 cost is spent, whatever follows, so Stage 1 costs but for a constant

        L(w) = C(w) - s w + eta sum over v < w of (nbar(v | n_v) - nbar(v)),

    where n_v are the new experts of draft d_v: the curve holds s for every input and the average
    pairs of every draft. A step from w to w + 1 then brings p_w - rho Delta L_c(w), equation 6's
    two sides, and G(w) - rho L(w) is at its maximum where the sum of these steps from w0 is. Of w0
    and w0 + 1 this is equation 6 itself. Ties go to the shorter.

    Args:
        experts: [u, k]; all that Stage 0 saw. A w0 beyond u counts as u.
        prefix: [M >= u - 1] p_1..p_M.
        shrink: whether lengths from SHORTEST, and not only from w0, are among the choices.
        Others as `correct`.
    """
    u, device = experts.shape[0], experts.device
    w0 = torch.as_tensor(w0, device=device).clamp(max=u)
    row, w = torch.arange(1, u, device=device), torch.arange(1, u + 1, device=device)
    step = prefix[: u - 1] - rho * tables.added_cost(row, every_new(experts)[1:], cost)
    none, nothing = torch.zeros_like(step), step.new_zeros(1)
    longer = torch.where(row >= w0, step, none).cumsum(0)
    shorter = torch.where(row < w0, step, none).flip(0).cumsum(0).flip(0)
    score = torch.cat((nothing, longer)) - torch.cat((shorter, nothing))  # 0 at w0
    least = w0.clamp(max=SHORTEST) if shrink else w0
    score = score.masked_fill(w < least, -torch.inf)
    return (score == score.amax()).long().argmax() + 1


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
