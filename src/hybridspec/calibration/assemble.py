"""From a trace and measured times to a profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hybridspec.calibration.cost import Quadratic, expert_tables, fit_quadratic, new_in_row
from hybridspec.calibration.fit import (
    fit_acceptance,
    fit_temperatures,
    labels,
    reached,
    reliability,
)
from hybridspec.calibration.measure import Variant, typical_rounds
from hybridspec.calibration.proxy import layer0_proxy
from hybridspec.calibration.rounds import Samples
from hybridspec.calibration.slopes import Slopes
from hybridspec.calibration.sweep import Sweep, fastest
from hybridspec.calibration.trace import CalibrationError, Trace
from hybridspec.policy.acceptance import AcceptanceModel
from hybridspec.policy.objective import best_rate
from hybridspec.policy.profile import Cost, Profile

FOLDS = 5  # of the prompts, for the errors that are reported
Floats = NDArray[np.float64]
Times = Mapping[Variant, float]  # ms a round


def fit_profile(
    trace: Trace,
    costs: Mapping[str, Samples],
    slopes: Slopes,
    about: Mapping[str, Any],
    sweeps: Mapping[str, Sweep] | None = None,
) -> Profile:
    """All fits of a dense trace and measured costs.

    Args:
        trace: dense; the rounds that the fits see are those of its walk at w = W.
        costs: timed rounds by "verifier/launcher".
        slopes: as measured.
        about: `pair` and `runtime` of the profile, and what else its data shall say.
        sweeps: measured fixed lengths by "verifier/launcher"; where there are none, the best fixed
            length is taken from the fitted cost.

    Raises:
        CalibrationError: too few rounds.
    """
    model = fit_acceptance(trace)
    walked = trace.take(trace.walk(trace.drafts + 1))
    prefix = _prefix(model, walked)
    times = {name: typical_rounds(samples) for name, samples in costs.items()}
    draft_ms = _draft_ms(next(iter(times.values())), slopes.draft_ms, trace.drafts)
    mean, given = expert_tables(walked)
    fitted = {name: fit_cost(ms, trace, prefix, draft_ms) for name, ms in times.items()}
    for name, sweep in (sweeps or {}).items():
        fitted[name] = replace(fitted[name], static=fastest(sweep))
    return Profile(
        pair=dict(about["pair"]),
        runtime=dict(about["runtime"]),
        curves_x=_rows(model.curves.x),
        curves_y=_rows(model.curves.y),
        weights=tuple(model.weights.tolist()),
        cost=fitted,
        draft_ms=draft_ms,
        s_ms=slopes.s_ms,
        eta_ms=slopes.eta_ms,
        n_all_mean=tuple(mean.tolist()),
        n_all_given=_rows(given),
        temperatures=tuple(fit_temperatures(trace).tolist()),
        data=_data(trace, walked) | slopes.data | _swept(sweeps or {}) | dict(about),
    )


def _swept(sweeps: Mapping[str, Sweep]) -> dict[str, Any]:
    """What the sweeps measured, for people: tokens a second by length."""
    rates = {
        name: {str(w): tokens / max(seconds, 1e-9) for w, (tokens, seconds) in sweep.items()}
        for name, sweep in sweeps.items()
    }
    return {"static_tokens_per_second": rates}


def screening(trace: Trace, samples: Samples, slopes: Slopes) -> dict[int, float]:
    """Tokens a ms of every fixed length, by the fitted cost of one runtime's rounds."""
    times = typical_rounds(samples)
    draft_ms = _draft_ms(times, slopes.draft_ms, trace.drafts)
    return fixed_rates(trace, _quadratic(times, trace.drafts)[1], draft_ms)


def _data(trace: Trace, walked: Trace) -> dict[str, Any]:
    proxy = layer0_proxy(new_in_row(walked.experts))
    return {
        "positions": len(trace),
        "rounds": len(walked),
        "layer0_proxy": None if proxy is None else asdict(proxy),
        "reached": reached(trace).sum(0).tolist(),
        "reliability": _held_out(trace),
    }


def _prefix(model: AcceptanceModel, trace: Trace) -> torch.Tensor:
    confidence, entropy = (torch.from_numpy(t).double() for t in (trace.confidence, trace.entropy))
    return model.prefix(confidence, entropy)


def _rows(table: torch.Tensor | NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in table.tolist())


def _draft_ms(times: Times, whole: float, drafts: int) -> tuple[float, ...]:
    """[D] a call for 1..D drafts: a whole block's, less what whole rounds saved with fewer.

    Linear between the numbers that were timed, made monotone: more drafts never take less. Never
    more than the whole block's.
    """
    from sklearn.isotonic import IsotonicRegression

    ms = {m: time for (w, m), time in times.items() if w == 2}
    timed = sorted(ms)
    rising = IsotonicRegression().fit_transform(timed, [ms[m] for m in timed])
    saved = np.interp(np.arange(1, drafts + 1), timed, rising[-1] - rising)
    return tuple((whole - np.clip(saved, 0, whole)).tolist())


def fit_cost(times: Times, trace: Trace, prefix: torch.Tensor, draft_ms: tuple[float, ...]) -> Cost:
    """Ms by length, the quadratic through them, and the rate it leads to.

    The drafter's time is the fixed part: it is paid at any length (appendix A.2). A drafter that
    may be asked for fewer drafts is asked for as many as give the best rate.
    """
    drafts, plain = len(draft_ms), times[0, 0]
    ms, fit = _quadratic(times, drafts)
    static = best_fixed(trace, fit, draft_ms)
    cost = Cost(ms, fit.coefficients, draft_ms[-1], plain, 1.0, static, drafts)
    curve = cost.target_curve(prefix.shape[1] + 1).double()
    rates = {
        m: best_rate(prefix[:, :m], curve, call) for m, call in enumerate(draft_ms, 1) if m > 1
    }
    best = max(rates, key=lambda m: rates[m])
    return replace(cost, rho=rates[best], drafts=best)


def _quadratic(times: Times, drafts: int) -> tuple[dict[int, float], Quadratic]:
    """Ms by length where the drafter is asked for a whole block, and the fit to them."""
    ms = {w: time for (w, m), time in sorted(times.items()) if m == drafts}
    return ms, fit_quadratic(np.array([*ms]), np.array([*ms.values()]))


def best_fixed(trace: Trace, round_ms: Quadratic, draft_ms: Sequence[float]) -> int:
    """The fixed length with the most tokens a ms by the fitted cost, ties to the shorter."""
    rates = fixed_rates(trace, round_ms, draft_ms)
    return max(rates, key=lambda w: rates[w])


def fixed_rates(trace: Trace, round_ms: Quadratic, draft_ms: Sequence[float]) -> dict[int, float]:
    """Tokens a ms where every round has one length, and asks for no more drafts, by length.

    By the fitted cost, since one odd time misleads.
    """
    lengths = np.arange(2, trace.drafts + 2)
    ms = round_ms(lengths) - draft_ms[-1] + np.array([draft_ms[w - 2] for w in lengths.tolist()])
    rates = {}
    for w, each in zip(lengths.tolist(), ms.tolist(), strict=True):
        at = trace.walk(w)
        tokens = np.minimum(np.minimum(trace.accepted[at] + 1, w), trace.left[at]).sum()
        rates[w] = float(tokens) / (len(at) * each)
    return rates


def _held_out(trace: Trace) -> dict[str, Any]:
    """Expected calibration errors, each prompt judged by a model fitted to four fifths without it.

    Empty where a fifth less is too little for a fit.
    """
    named: dict[str, Floats] = {
        name: np.zeros(trace.confidence.shape) for name in ("confidence", "isotonic", "model")
    }
    named["confidence"] = trace.confidence.astype(np.float64)
    for fold in range(FOLDS):
        test = trace.prompt % FOLDS == fold
        if not test.any() or test.all():
            return {}
        try:
            model = fit_acceptance(trace.take(~test))
        except CalibrationError:
            return {}
        held = trace.take(test)
        confidence, entropy = (
            torch.from_numpy(t).double() for t in (held.confidence, held.entropy)
        )
        named["isotonic"][test] = model.curves(confidence).numpy()
        named["model"][test] = model.conditional(confidence, entropy).numpy()
    mask, happened = reached(trace), labels(trace)
    return {name: _errors(p, happened, mask) for name, p in named.items()}


def _errors(p: Floats, happened: NDArray[np.bool_], mask: NDArray[np.bool_]) -> dict[str, Any]:
    whole = reliability(p[mask], happened[mask])
    columns = range(p.shape[1])
    each = [reliability(p[mask[:, i], i], happened[mask[:, i], i]).ece for i in columns]
    return {"ece": whole.ece, "bins": whole.bins, "ece_by_position": each}
