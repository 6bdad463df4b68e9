"""The fits against simulated rounds whose parameters are known, and tables by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from hybridspec.calibration.assemble import _draft_ms, best_fixed
from hybridspec.calibration.cost import (
    Quadratic,
    expert_tables,
    fit_line,
    fit_quadratic,
    new_in_row,
)
from hybridspec.calibration.fit import (
    CalibrationError,
    check_suffices,
    fit_acceptance,
    fit_curves,
    fit_temperatures,
    labels,
    reached,
    reliability,
)
from hybridspec.calibration.trace import Trace, joined
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves

pytest.importorskip("sklearn", reason="calibration's own extra is not installed")
D = 6
WEIGHTS = torch.tensor([-1.5, 4.0, -0.8, 0.5, -0.3, -0.2], dtype=torch.float64)


def simulated(n: int, seed: int) -> tuple[Trace, AcceptanceModel]:
    """Rounds drawn from a known model whose isotonic part is the confidence itself."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(3, 1, (n, D)).astype(np.float32)
    entropy = (rng.gamma(2.0, 0.4, (n, D)) * (1.2 - confidence)).astype(np.float32)
    line = torch.tensor([[0.0, 1.0]], dtype=torch.float64).expand(D, 2)
    truth = AcceptanceModel(IsotonicCurves(line.contiguous(), line.contiguous()), WEIGHTS)
    c = truth.conditional(torch.from_numpy(confidence), torch.from_numpy(entropy)).numpy()
    accepted = (rng.random((n, D)) < c).cumprod(1).sum(1).astype(np.int16)
    experts = rng.integers(0, 8, (n, 3, D + 1, 2)).astype(np.uint16)
    left = np.full(n, 99, np.int32)
    return Trace(np.zeros(n, np.int32), left, confidence, entropy, accepted, experts), truth


def test_the_model_is_recovered_and_better_than_raw_confidence():
    train, _ = simulated(40_000, 0)
    test, truth = simulated(40_000, 1)
    model = fit_acceptance(train)
    inputs = torch.from_numpy(test.confidence), torch.from_numpy(test.entropy)
    ours, expected = model.conditional(*inputs).numpy(), truth.conditional(*inputs).numpy()
    mask = reached(test)
    # the standard error of an isotonic bin of some hundred rounds is about 0.03
    assert np.abs(ours - expected)[mask].mean() < 0.02
    fitted = reliability(ours[mask], labels(test)[mask])
    raw = reliability(test.confidence[mask].astype(np.float64), labels(test)[mask])
    assert fitted.ece < 0.02 < raw.ece


def test_curves_are_monotone_and_clipped():
    trace, _ = simulated(3_000, 2)
    curves = fit_curves(trace)
    assert (curves.y.diff(dim=1) >= 0).all()
    n = reached(trace).sum(0)
    assert (curves.y.amin(1) >= torch.from_numpy(1 / (n + 2)) - 1e-12).all()
    assert (curves.y.amax(1) <= torch.from_numpy((n + 1) / (n + 2)) + 1e-12).all()


def test_rounds_that_were_cut_are_left_out_and_labels_are_not_censored():
    trace, _ = simulated(100, 3)
    left = np.where(np.arange(100) < 50, trace.accepted, 99).astype(np.int32)
    cut = Trace(trace.prompt, left, trace.confidence, trace.entropy, trace.accepted, trace.experts)
    assert not reached(cut)[:50].any()
    assert (reached(cut)[50:].sum(1) == np.minimum(trace.accepted[50:] + 1, D)).all()
    assert (labels(cut).sum(1) == trace.accepted).all()


def test_too_few_rounds_names_every_position_and_how_many_more():
    trace, _ = simulated(60, 4)
    accepted = np.zeros(60, np.int16)
    accepted[:10] = 2
    few = Trace(trace.prompt, trace.left, trace.confidence, trace.entropy, accepted, trace.experts)
    with pytest.raises(CalibrationError) as refused:
        check_suffices(few)
    assert str(refused.value) == (
        "Too few rounds reach some drafts; a curve needs 30 a draft, that is 20 more at draft 2 "
        "(10), 20 more at draft 3 (10), 30 more at draft 4 (0), 30 more at draft 5 (0), 30 more at "
        "draft 6 (0). Capture more prompts (--limit) or longer answers (--max-tokens)."
    )


def test_temperatures_undo_a_known_scaling():
    rng = np.random.default_rng(6)
    logit = rng.normal(1.0, 1.5, (30_000, D))
    truth = 1 / (1 + np.exp(-logit))
    accepted = (rng.random(truth.shape) < truth).cumprod(1).sum(1).astype(np.int16)
    sharp = (1 / (1 + np.exp(-2 * logit))).astype(np.float32)  # too sure by a factor of two
    some = np.zeros((30_000, 1, D + 1, 1), np.uint16)
    left = np.full(30_000, 99, np.int32)
    trace = Trace(np.zeros(30_000, np.int32), left, sharp, np.ones_like(sharp), accepted, some)
    found = fit_temperatures(trace)
    assert np.all(np.abs(np.log(found[:3] / 2)) < 0.25)  # two steps of the grid


def test_drafts_that_all_share_one_fate_are_no_fit():
    trace, _ = simulated(60, 7)
    accepted = np.full(60, D, np.int16)
    sure = Trace(trace.prompt, trace.left, trace.confidence, trace.entropy, accepted, trace.experts)
    with pytest.raises(CalibrationError, match="All drafts were accepted"):
        fit_acceptance(sure)


def test_reliability_by_hand():
    result = reliability(np.array([0.1, 0.1, 0.9, 0.9]), np.array([False, True, True, True]))
    assert result.ece == pytest.approx((0.4 * 2 + 0.1 * 2) / 4)


def test_quadratic_and_line_are_recovered():
    w = np.arange(2, 17)
    fit = fit_quadratic(w, 3.0 + 0.5 * w - 0.01 * w**2)
    assert fit.coefficients == pytest.approx((3.0, 0.5, -0.01))
    assert fit.error < 1e-9  # float64 rounding
    line = fit_line(np.array([1.0, 2.0, 4.0]), np.array([3.0, 5.0, 9.0]))
    assert (line.intercept, line.slope, line.r2) == pytest.approx((1.0, 2.0, 1.0))


def test_new_experts_by_hand_and_as_distinct_counts():
    rng = np.random.default_rng(0)
    experts = np.stack([rng.permuted(np.tile(np.arange(8), (3, 5, 1)), axis=-1)[..., :2]] * 2)
    new = new_in_row(experts.astype(np.uint16))
    for layer in range(3):
        seen = [len(set(experts[0, layer, : w + 1].flatten())) for w in range(5)]
        assert new[0, layer].cumsum().tolist() == seen


def test_tables_take_the_mean_where_there_is_enough_and_the_line_elsewhere():
    n = 200
    experts = np.zeros((n, 2, 3, 2), np.uint16)
    experts[:, :, 0] = [0, 1]
    experts[:, 0, 1] = [0, 1]
    experts[:100, 0, 1] = [0, 2]  # one new expert in layer 0 ...
    experts[:, 1, 1] = [0, 1]
    experts[:100, 1, 1] = [3, 4]  # ... and two in layer 1
    experts[:, :, 2] = [0, 1]
    zero = np.zeros((n, 2), np.float32)
    trace = Trace(np.zeros(n, np.int32), np.zeros(n, np.int32), zero, zero,
                  np.zeros(n, np.int16), experts)  # fmt: skip
    mean, given = expert_tables(trace)
    assert mean[1] == pytest.approx(1.5)
    assert given[1].tolist() == pytest.approx([0.0, 3.0, 6.0])  # n = 2 was never seen: the line
    assert mean[2] == 0.0


def test_walks_and_files(tmp_path):
    trace, _ = simulated(12, 5)
    accepted = np.array([2, 0, 5, 1, 0, 3] * 2, np.int16)
    prompt = np.repeat([4, 9], 6).astype(np.int32)
    trace = Trace(prompt, trace.left, trace.confidence, trace.entropy, accepted, trace.experts)
    assert trace.walk(1).tolist() == list(range(12))
    assert trace.walk(3).tolist() == [0, 3, 5, 6, 9, 11]
    assert trace.walk(16).tolist() == [0, 3, 5, 6, 9, 11]
    assert trace.walk(2).tolist() == [0, 2, 4, 5, 6, 8, 10, 11]
    trace.save(tmp_path / "trace.npz")
    again = Trace.load(tmp_path / "trace.npz")
    both = joined([trace, again])
    assert len(both) == 24
    some = both.take(both.prompt == 9)
    assert some.accepted.tolist() == [2, 0, 5, 1, 0, 3] * 2
    assert np.array_equal(both.experts[12:], trace.experts)
    assert list(tmp_path.iterdir()) == [tmp_path / "trace.npz"]


def test_smaller_draft_calls_are_priced_by_what_they_save():
    ms = _draft_ms({(0, 0): 1.0, (2, 6): 10.0, (2, 1): 7.0, (2, 3): 8.0, (3, 6): 11.0}, 4.0, 6)
    # 3 ms saved at one draft, 2 at three, none at six
    assert ms == pytest.approx([1.0, 1.5, 2.0, 8 / 3, 10 / 3, 4.0])


def test_more_drafts_never_take_less_by_an_odd_time():
    ms = _draft_ms({(0, 0): 1.0, (2, 6): 10.0, (2, 1): 9.0, (2, 3): 7.0, (3, 6): 11.0}, 4.0, 6)
    # 9 and 7 become their mean, 8: 2 ms saved up to three drafts
    assert ms == pytest.approx([2.0, 2.0, 2.0, 8 / 3, 10 / 3, 4.0])


@pytest.mark.parametrize(
    ("draft_ms", "best"),
    [
        ((5.0,) * D, 3),  # 2 / 10 against 3 / 10: a call costs the same for any number
        ((3.0, *(5.0,) * (D - 1)), 3),  # 2 / 8 against 3 / 10
        ((0.1, *(5.0,) * (D - 1)), 2),  # 2 / 5.1 against 3 / 10
    ],
)
def test_the_best_fixed_length_asks_for_no_more_drafts_than_it_verifies(draft_ms, best):
    """Every round accepts two drafts and costs 10 ms, a whole block's draft call included."""
    trace, _ = simulated(60, 8)
    two = np.full(60, 2, np.int16)
    trace = Trace(trace.prompt, trace.left, trace.confidence, trace.entropy, two, trace.experts)
    assert best_fixed(trace, Quadratic((10.0, 0.0, 0.0), 0.0), draft_ms) == best
