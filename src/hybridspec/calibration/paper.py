"""The cost of rounds as the HybridSpec paper profiled it, for replays without its machine.

Qwen3.6-35B-A3B with its DFlash drafter on an A100 (table 4 and appendix D.1): GPU time only, so the
host's share, which the paper's decode times include, is missing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from hybridspec.calibration.assemble import best_fixed
from hybridspec.calibration.cost import fit_quadratic
from hybridspec.calibration.trace import Trace
from hybridspec.policy.objective import best_rate
from hybridspec.policy.profile import Cost, Profile

TARGET_MS = {
    4: 9.527, 5: 10.055, 6: 10.811, 7: 11.876, 8: 12.648, 10: 14.075, 12: 14.659, 15: 16.078,
    16: 16.318,
}  # fmt: skip
DRAFT_MS = 1.82  # 1.795 to 1.856 over the lengths
ETA_MS = 4.18e-3  # one more distinct expert in a layer (appendix A.2)
STEP_MS = 0.154 / 30  # table 4's slope of GDN time, for one layer of thirty
PLAIN_MS = 1e3 / 152  # plain decoding at 152 tokens a second, from the speedups of table 1


def with_paper_cost(profile: Profile, trace: Trace) -> Profile:
    """The profile of a pair as if its rounds cost what the paper's do, rho included.

    Lengths that table 4 lacks come from the quadratic through those it has.
    """
    ms = {w: t + DRAFT_MS for w, t in TARGET_MS.items()}
    fit = fit_quadratic(np.array([*ms]), np.array([*ms.values()]))
    drafts = trace.drafts
    static = best_fixed(trace, fit, (DRAFT_MS,) * drafts)
    cost = Cost(ms, fit.coefficients, DRAFT_MS, PLAIN_MS, 1.0, static, drafts)
    rounds = trace.take(trace.walk(drafts + 1))
    scores = torch.from_numpy(rounds.confidence), torch.from_numpy(rounds.entropy)
    prefix = profile.acceptance().prefix(*scores)
    rho = best_rate(prefix, cost.target_curve(drafts + 1), DRAFT_MS)
    return replace(
        profile,
        cost=dict.fromkeys(profile.cost, replace(cost, rho=rho)),
        draft_ms=(DRAFT_MS,) * drafts,
        s_ms=STEP_MS,
        eta_ms=ETA_MS,
    )
