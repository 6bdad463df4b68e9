"""The Python twin of the policy's arithmetic against the tensors that are the law."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.policy import host, objective
from hybridspec.policy.acceptance import AcceptanceModel, IsotonicCurves
from hybridspec.policy.objective import CorrectionTables

D = 7


def world(seed: int):
    """A random model with curves of steps and repeated knots, scores, costs and tables, float64."""
    g = torch.Generator().manual_seed(seed)

    def rand(*size):
        return torch.rand(*size, generator=g, dtype=torch.float64)

    x = rand(D, 5).sort(1).values
    x[:, -1] = x[:, -2]  # a repeated last knot, as padding leaves them
    y = rand(D, 5).sort(1).values
    y[:, -1] = y[:, -2]
    weights = 4 * rand(6) - 2
    model = AcceptanceModel(IsotonicCurves(x, y), weights)
    cost = rand(D + 2).cumsum(0)
    tables = CorrectionTables(float(rand(1)), float(rand(1)), 9 * rand(D + 1), 9 * rand(D + 1, 3))
    confidence, entropy = rand(D), 3 * rand(D)
    entropy[0] *= 1e-9  # below the clamp
    experts = torch.randint(0, 6, (D + 1, 2), generator=g)
    experts[:, 1] = (experts[:, 0] + 1 + experts[:, 1] % 5) % 6  # distinct in a row
    return model, confidence, entropy, cost, tables, experts


@given(st.integers(0, 10**6), st.integers(1, D), st.floats(0.01, 2.0), st.integers(1, 2))
@settings(deadline=None, max_examples=200)
def test_the_twin_agrees(seed, drafts, rho, shortest):
    model, confidence, entropy, cost, tables, experts = world(seed)
    c, h = confidence[:drafts], entropy[:drafts]
    law = model.prefix(c, h)
    ours = host.HostAcceptance.of(model).prefix(c.tolist(), h.tolist())
    torch.testing.assert_close(torch.tensor(ours, dtype=torch.float64), law, rtol=1e-9, atol=1e-12)
    w0 = objective.select(law, cost, rho, shortest)
    assert host.select(law.tolist(), cost.tolist(), rho, shortest) == int(w0)
    for u in (int(w0), min(int(w0) + 1, drafts + 1)):
        seen = experts[:u]
        w = objective.correct(w0, seen, law, cost, rho, tables)
        twin = host.correct(
            int(w0), seen.tolist(), law.tolist(), cost.tolist(), rho, host.HostTables.of(tables)
        )
        assert twin == int(w)


@given(st.integers(0, 10**6), st.integers(2, D + 1), st.integers(1, D + 1), st.booleans())
@settings(deadline=None, max_examples=200)
def test_the_twin_of_the_wider_correction_agrees(seed, w0, u, shrink):
    model, confidence, entropy, cost, tables, experts = world(seed)
    law, seen = model.prefix(confidence, entropy), experts[:u]
    w = objective.reconsider(w0, seen, law, cost, 0.7, tables, shrink=shrink)
    twin = host.reconsider(
        w0, seen.tolist(), law.tolist(), cost.tolist(), 0.7, host.HostTables.of(tables),
        shrink=shrink,
    )  # fmt: skip
    assert twin == int(w)
    assert host.every_new(seen.tolist()) == objective.every_new(seen).tolist()


def test_confidence_at_and_beyond_the_knots():
    model, *_ = world(3)
    x, y = model.curves.x[0], model.curves.y[0]
    twin = host.HostAcceptance.of(model)
    for at in (0.0, float(x[0]), float(x[2]), float(x[-1]), 1.0):
        law = float(model.curves(torch.tensor([at], dtype=torch.float64))[0])
        assert abs(host._interpolated(twin.x[0], twin.y[0], at) - law) < 1e-9  # float64
    assert host._interpolated(twin.x[0], twin.y[0], 1.0) == float(y[-1])


def test_sigmoid_does_not_overflow():
    assert host.sigmoid(-1e9) == 0.0
    assert host.sigmoid(1e9) == 1.0
