"""A whole fit on simulated rounds: every known parameter comes back, within the error stated."""

from __future__ import annotations

import numpy as np
import pytest

from builders import random_target
from hybridspec.calibration import measure
from hybridspec.calibration.assemble import fit_profile
from hybridspec.calibration.measure import expert_slope, stage0_slope
from hybridspec.calibration.replay import CostModel, replay
from hybridspec.calibration.rounds import variants
from hybridspec.calibration.slopes import Slopes
from hybridspec.calibration.trace import Trace
from hybridspec.policy.hybrid import ThroughputPolicy
from hybridspec.runtime.state import TargetState
from scripted import TINY

pytest.importorskip("sklearn", reason="calibration's own extra is not installed")
D, LAYERS, K = 15, 6, 4
PLAIN, FIXED, A, B, C = 6.0, 2.0, 8.0, 0.9, -0.02  # ms; a + b w + c w^2 is a whole round
S, ETA, LATER = 0.05, 0.004, 3.0
ABOUT = {"pair": {"target": "a", "drafter": "b"}, "runtime": {"device": "cpu", "dtype": "float32"}}
RNG = np.random.default_rng(0)


def experts(n: int) -> np.ndarray:
    """[n, L, W, k]: j new experts in layer 0 go with j later layers whose row is new too."""
    out = np.tile(np.arange(K, dtype=np.uint16), (n, LAYERS, D + 1, 1))
    new = RNG.integers(0, K + 1, (n, D + 1))
    for row in range(1, D + 1):
        mine = new[:, row]
        fresh = K * row + np.arange(K, dtype=np.uint16)
        out[:, 0, row] = np.where(np.arange(K) < mine[:, None], fresh, out[:, 0, row])
        for layer in range(1, LAYERS):
            changed = RNG.random(n) < LATER * mine / (K * (LAYERS - 1))
            out[changed, layer, row] = fresh
    return out


def simulated(n: int = 12_000) -> Trace:
    confidence = RNG.beta(5, 1, (n, D)).astype(np.float32)
    p = confidence**0.5  # the drafter is too modest
    accepted = (RNG.random((n, D)) < p).cumprod(1).sum(1).astype(np.int16)
    left = np.tile(np.arange(120, 0, -1), n // 120).astype(np.int32)
    prompt = np.repeat(np.arange(n // 120), 120).astype(np.int32)
    return Trace(prompt, left, confidence, 1.2 - confidence, accepted, experts(n))


def timed() -> dict:
    """Rounds of ten answers at every variant: 2% of noise, on a machine whose speed changes."""
    level, samples = RNG.choice((1.0, 1.6), 10), {}
    for w, drafts in variants(D + 1):
        ms = A + B * w + C * w * w - FIXED * (1 - drafts / D) if drafts else PLAIN
        noise = RNG.normal(1, 0.02, 10)
        samples[w, drafts] = [(20, 0.02 * ms * m) for m in level * noise]
    return samples


@pytest.fixture(scope="module")
def fitted():
    trace = simulated()
    return trace, fit_profile(trace, {"exact/eager": timed()}, Slopes(S, ETA, FIXED, {}), ABOUT)


def test_costs_come_back(fitted):
    """Up to the level, which is that of the machine in its slower or its faster minutes."""
    cost = fitted[1].cost["exact/eager"]
    w = np.arange(2, 17)
    curve = cost.round_curve(16).numpy()[2:] / cost.plain_ms
    # ten answers with 2% of noise: 1% a length, less for the fit, and 1% of plain decoding's own
    np.testing.assert_allclose(curve, (A + B * w + C * w * w) / PLAIN, rtol=0.025)


def test_draft_calls_come_back(fitted):
    ms = np.array(fitted[1].draft_ms)
    level = fitted[1].cost["exact/eager"].plain_ms / PLAIN
    saved = (ms[-1] - ms) / level
    expected = FIXED * (1 - np.arange(1, D + 1) / D)
    # differences of rounds of 9.7 ms with 1% of error each
    np.testing.assert_allclose(saved, expected, atol=0.3)


def test_expert_tables_come_back(fitted):
    """n + 3 n pairs for n new layer-0 experts, 2 of them on average."""
    profile = fitted[1]
    given, mean = np.array(profile.n_all_given)[1:], np.array(profile.n_all_mean)[1:]
    # 250 rounds a cell, each of 5 layers with 4 pairs or none: four standard errors of 0.28
    np.testing.assert_allclose(given, np.tile((1 + LATER) * np.arange(K + 1), (D, 1)), atol=1.2)
    # all 1,250 rounds, whose pairs spread by 7.2: four standard errors of 0.2
    np.testing.assert_allclose(mean, (1 + LATER) * 2, atol=0.8)


def test_held_out_errors_are_small_and_below_raw_confidences(fitted):
    held = fitted[1].data["reliability"]
    assert held["model"]["ece"] < 0.02 < held["confidence"]["ece"]
    assert held["isotonic"]["ece"] < held["confidence"]["ece"]


def test_rho_is_what_the_policy_earns(fitted):
    """The fixed point is an expectation over capture rounds; the walk is what comes of it."""
    trace, profile = fitted
    cost = profile.cost["exact/eager"]
    policy = ThroughputPolicy(
        profile.acceptance(), cost.target_curve(D + 1), cost.rho, None, cost.drafts + 1
    )
    saved = profile.draft_ms[-1] - np.array([0.0, *profile.draft_ms])
    model = CostModel(cost.round_curve(D + 1).double().numpy(), cost.plain_ms, saved_ms=saved)
    # 100 answers, whose ends cut one round in ten or so
    assert replay(trace, policy, model).rate == pytest.approx(cost.rho, rel=0.04)


def test_slopes_come_back(monkeypatch):
    """s and eta from times that have them, through the very code that measures them."""
    rng = np.random.default_rng(1)

    def times(truth):
        return lambda variants, turns, device: {
            x: truth(x) * rng.normal(1, 0.002) for x in variants
        }

    target, slot = random_target(TINY), TargetState(TINY, 64).slot()
    monkeypatch.setattr(measure, "interleaved", times(lambda u: 1.0 + S * u))
    line = stage0_slope(target, slot)
    assert line.slope == pytest.approx(S, abs=5e-4)  # 0.002 x 1.5 ms over a spread of 4.3 inputs
    assert line.r2 > 0.99
    layers = len(target.layers)
    monkeypatch.setattr(measure, "interleaved", times(lambda n: layers * (0.06 + 0.1 * n)))
    line = expert_slope(target)
    assert (line.intercept, line.slope) == pytest.approx((0.06, 0.1), abs=0.005)  # as above
