"""From a trace and measured times to a profile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from hybridspec.calibration.cost import expert_tables, fit_quadratic
from hybridspec.calibration.fit import (
    CalibrationError,
    fit_acceptance,
    labels,
    reached,
    reliability,
)
from hybridspec.calibration.measure import mean_round
from hybridspec.calibration.rounds import Samples
from hybridspec.calibration.slopes import Slopes
from hybridspec.calibration.trace import Trace
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.objective import best_rate
from hybridspec.policy.profile import Cost, Profile

HELD_OUT = 5  # every fifth prompt tests the fit whose errors are reported


def fit_profile(
    trace: Trace, costs: Mapping[str, Samples], slopes: Slopes, about: Mapping[str, Any]
) -> Profile:
    """All fits of a dense trace and measured costs.

    Args:
        trace: dense; the rounds that the fits see are those of its walk at w = W.
        costs: timed rounds by "verifier/launcher".
        slopes: as measured.
        about: `pair` and `runtime` of the profile, and what else its data shall say.

    Raises:
        CalibrationError: too few rounds.
    """
    model = fit_acceptance(trace)
    walked = trace.take(trace.walk(trace.drafts + 1))
    prefix = _prefix(model, walked)
    mean, given = expert_tables(walked)
    fitted = {name: _cost(samples, prefix, slopes.draft_ms) for name, samples in costs.items()}
    curves = model.curves
    data = {
        "positions": len(trace), "rounds": len(walked),
        "reached": reached(trace).sum(0).tolist(), **slopes.data,
        "reliability": _held_out(trace), **about,
    }  # fmt: skip
    return Profile(
        pair=dict(about["pair"]), runtime=dict(about["runtime"]),
        curves_x=_knots(curves.x), curves_y=_knots(curves.y),
        weights=tuple(model.weights.tolist()), cost=fitted, s_ms=slopes.s_ms, eta_ms=slopes.eta_ms,
        n_all_mean=tuple(mean.tolist()), n_all_given=tuple(tuple(r) for r in given.tolist()),
        data=data,
    )  # fmt: skip


def _prefix(model: AcceptanceModel, trace: Trace) -> torch.Tensor:
    confidence, entropy = (torch.from_numpy(t).double() for t in (trace.confidence, trace.entropy))
    return model.prefix(confidence, entropy)


def _knots(rows: torch.Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in rows.tolist())


def _cost(times: Samples, prefix: torch.Tensor, draft_ms: float) -> Cost:
    """Mean ms by length, the quadratic through them, and the rate it leads to.

    The drafter's time is the fixed part: it is paid at any length (appendix A.2).
    """
    ms = {w: mean_round(samples) for w, samples in sorted(times.items())}
    plain = ms.pop(0)
    fit = fit_quadratic(np.array([*ms]), np.array([*ms.values()]))
    cost = Cost(ms, fit.coefficients, draft_ms, plain, 1.0)
    curve = cost.target_curve(prefix.shape[1] + 1).double()
    rho = best_rate(prefix, curve, draft_ms)
    return Cost(ms, fit.coefficients, draft_ms, plain, rho)


def _held_out(trace: Trace) -> dict[str, Any]:
    """Expected calibration errors on every fifth prompt of a model fitted to the others."""
    test = trace.prompt % HELD_OUT == HELD_OUT - 1
    if not test.any() or test.all():
        return {}
    try:
        model = fit_acceptance(trace.take(~test))
    except CalibrationError:
        return {}
    held = trace.take(test)
    mask, happened = reached(held), labels(held)
    confidence = torch.from_numpy(held.confidence).double()
    ours = model.conditional(confidence, torch.from_numpy(held.entropy).double()).numpy()
    named = {
        "confidence": held.confidence.astype(np.float64),
        "isotonic": model.curves(confidence).numpy(),
        "model": ours,
    }
    return {
        name: {
            "ece": reliability(p[mask], happened[mask]).ece,
            "bins": reliability(p[mask], happened[mask]).bins,
            "ece_by_position": [
                reliability(p[mask[:, i], i], happened[mask[:, i], i]).ece
                for i in range(held.drafts)
            ],
        }
        for name, p in named.items()
    }
