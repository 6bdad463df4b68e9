"""Fits the acceptance model to capture rounds (paper appendix A.2 and E.3). Needs scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hybridspec.calibration.trace import CalibrationError, Trace
from hybridspec.policy.acceptance import TERMS, AcceptanceModel, IsotonicCurves, features

FEWEST = 30  # rounds that must reach a position before its curve says anything
BINS = 15
TEMPERATURES = np.logspace(-1, 1, 41)  # as SGLang's fitter tries them
Floats = NDArray[np.float64]


def reached(trace: Trace) -> NDArray[np.bool_]:
    """[N, D] rounds in which the drafts before i were accepted: those that say something of c_i.

    Rounds cut by an end or a limit are left out; labels are never censored, since a capture round
    verifies all D drafts (appendix E.3).
    """
    position = np.arange(trace.drafts)
    mask: NDArray[np.bool_] = (trace.accepted[:, None] >= position) & trace.whole[:, None]
    return mask


def labels(trace: Trace) -> NDArray[np.bool_]:
    """[N, D] whether draft i was accepted, A_D >= i."""
    mask: NDArray[np.bool_] = trace.accepted[:, None] > np.arange(trace.drafts)
    return mask


def check_suffices(trace: Trace, *, fewest: int = FEWEST) -> None:
    """Refuse a trace that no acceptance model can be fitted to.

    Raises:
        CalibrationError: fewer than `fewest` rounds reach some positions, all of which are named,
            or all drafts shared one fate.
    """
    mask = reached(trace)
    outcomes = set(labels(trace)[mask].tolist())
    if len(outcomes) == 1:
        fate = "accepted" if True in outcomes else "rejected"
        raise CalibrationError(
            f"All drafts were {fate}: there is nothing to fit. Capture other prompts, or check "
            "that the drafter belongs to the target."
        )
    counts = mask.sum(0)
    short = [f"{fewest - n} more at draft {i} ({n})" for i, n in enumerate(counts, 1) if n < fewest]
    if short:
        raise CalibrationError(
            f"Too few rounds reach some drafts; a curve needs {fewest} a draft, that is "
            f"{', '.join(short)}. Capture more prompts (--limit) or longer answers (--max-tokens)."
        )


def fit_curves(trace: Trace) -> IsotonicCurves:
    """One isotonic curve a position, clipped to [1 / (n + 2), (n + 1) / (n + 2)] for n rounds."""
    from sklearn.isotonic import IsotonicRegression

    mask, accepted = reached(trace), labels(trace)
    xs, ys = [], []
    for i in range(trace.drafts):
        rows = mask[:, i]
        n = int(rows.sum())
        model = IsotonicRegression(
            y_min=1 / (n + 2), y_max=(n + 1) / (n + 2), out_of_bounds="clip"
        ).fit(trace.confidence[rows, i].astype(np.float64), accepted[rows, i])
        xs.append(model.X_thresholds_)
        ys.append(model.y_thresholds_)
    return IsotonicCurves(_padded(xs), _padded(ys))


def fit_acceptance(trace: Trace, *, fewest: int = FEWEST) -> AcceptanceModel:
    """Isotonic curves, then the logistic model on them, over all rounds and positions at once.

    Raises:
        CalibrationError: as `check_suffices`.
    """
    from sklearn.linear_model import LogisticRegression

    check_suffices(trace, fewest=fewest)
    curves = fit_curves(trace)
    calibrated = curves(torch.from_numpy(trace.confidence).double())
    terms = features(calibrated, torch.from_numpy(trace.entropy).double(), trace.drafts)
    mask = reached(trace)
    model = LogisticRegression(C=np.inf, fit_intercept=False, max_iter=2000, tol=1e-8)
    model.fit(terms.numpy()[mask], labels(trace)[mask])
    assert model.coef_.shape == (1, len(TERMS))
    return AcceptanceModel(curves, torch.from_numpy(model.coef_[0].copy()))


def fit_temperatures(trace: Trace) -> Floats:
    """Sequential temperature scaling of raw confidence, [D] (DSpark).

    From the first draft on, each position takes the temperature of TEMPERATURES at which the
    product of scaled confidences so far is best calibrated for A_D >= i.
    """
    whole = trace.take(trace.whole)
    logit = np.log(_inside(whole.confidence) / (1 - _inside(whole.confidence)))
    happened, product, chosen = labels(whole), np.ones(len(whole)), []
    for i in range(whole.drafts):
        scaled = [product / (1 + np.exp(-logit[:, i] / t)) for t in TEMPERATURES]
        best = min(range(len(scaled)), key=lambda j: reliability(scaled[j], happened[:, i]).ece)
        chosen.append(TEMPERATURES[best])
        product = scaled[best]
    return np.array(chosen)


def _inside(confidence: NDArray[np.float32]) -> Floats:
    return np.clip(confidence.astype(np.float64), 1e-6, 1 - 1e-6)


def _padded(rows: list[Floats]) -> torch.Tensor:
    """[D, K]: shorter rows repeat their last knot."""
    width = max(2, *(len(r) for r in rows))
    return torch.from_numpy(np.stack([np.pad(r, (0, width - len(r)), "edge") for r in rows]))


@dataclass(frozen=True)
class Reliability:
    """How far probabilities are from what happened.

    ece: expected calibration error over BINS equal bins. bins: (mean probability, share accepted,
    rounds) of each bin that holds any.
    """

    ece: float
    bins: tuple[tuple[float, float, int], ...]


def reliability(probability: Floats, happened: NDArray[np.bool_]) -> Reliability:
    """Compare probabilities [N] with outcomes [N]."""
    which = np.minimum((probability * BINS).astype(int), BINS - 1)
    bins = tuple(
        (float(probability[m].mean()), float(happened[m].mean()), int(m.sum()))
        for m in (which == b for b in range(BINS))
        if m.any()
    )
    total = sum(n for _, _, n in bins)
    return Reliability(sum(abs(p - h) * n for p, h, n in bins) / max(total, 1), bins)
