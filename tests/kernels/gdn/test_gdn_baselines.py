"""`per-token` and `replay` on kernels: the bits of `exact` over rounds, by what each one keeps."""

from __future__ import annotations

import pytest
import torch
from fused_cases import NAN, SHAPES, Case, case
from gdn_forms import OUTPUTS, STATES, distance, inputs, law

from hybridspec.kernels.gdn import baselines, exact, fused
from hybridspec.kernels.gdn.baselines import Ring

LOUD = 1e30
# w and m of rounds in a row; the ring of 32 is folded when 17 or more are pending
ROUNDS = [(9, 9), (5, 5), (4, 3), (16, 16), (2, 1), (3, 2)]
SHAPE = (1, 2, 32, 16)


@pytest.fixture(params=["triton", "cuda"])
def kernels(request, device):
    """The baselines and `exact`: verification, commit, blocks of a head."""
    if request.param == "triton":
        return baselines, fused.verify, exact.commit, fused.blocks
    if device.type != "cuda":
        pytest.skip("CUDA C++ needs a GPU; that it compiles is tested without one")
    from hybridspec.kernels.gdn import baselines_cuda, exact_cuda

    return baselines_cuda, exact_cuda.fused, exact_cuda.commit, exact_cuda.blocks


def serve(kernels, c: Case) -> None:
    if kernels[0] is baselines:
        return
    from hybridspec.kernels.gdn import exact_cuda

    if not exact_cuda.serves_fused(c.state.shape[2], c.state.shape[1], c.raw.stride(0)):
        pytest.skip("the CUDA kernels do not serve these sizes")


def scalar(value: int, device: torch.device) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=device)


def outputs(kernels, c: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """NaN: gated, squares."""
    heads, dv, _ = c.state.shape
    shapes = (16, heads, dv), (16, heads, kernels[3](dv))
    return tuple(torch.full(s, NAN, device=c.state.device) for s in shapes)


def factors(c: Case, layers: int = 1, rows: int = 16) -> Ring:
    heads, dv, dk = c.state.shape
    shapes = (heads, dv), (c.buffers.k.shape[1], dk), (heads,)
    return Ring(*(torch.full((layers, rows, *s), NAN, device=c.state.device) for s in shapes))


def exact_round(kernels, c: Case, state, w: int, m: int):
    """Outputs of `exact` from a state, and the state after m tokens."""
    made, kept, after = outputs(kernels, c), factors(c), state[None].clone()
    kernels[1](c.raw, c.gates, state, *made, *(t[0] for t in kept), scalar(w, state.device))
    kernels[2](after, *kept, scalar(m, state.device))
    return made, after[0]


def same(ours, theirs, w: int) -> None:
    """Equal bits in rows 0..w-1; the others were left alone."""
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a[:w], b[:w])
        assert a[w:].isnan().all()


@pytest.mark.parametrize("shape", [(1, 2, 32, 32), *SHAPES[2:]])
def test_a_state_after_every_token(shape, kernels, device):
    c, w = case(shape, device, seed=1), 7
    serve(kernels, c)
    made = outputs(kernels, c)
    states = torch.full((16, *c.state.shape), NAN, device=device)
    kernels[0].per_token_fused(c.raw, c.gates, c.state, *made, states, scalar(w, device))
    assert states[w:].isnan().all()
    for m in (1, 4, w):
        expected, after = exact_round(kernels, c, c.state, w, m)
        assert torch.equal(states[m - 1], after)
    same(made, expected, w)


@pytest.mark.parametrize("m", [0, 1, 9, 16])
def test_per_token_commit_copies_in_all_layers(m, kernels, device):
    states = torch.randn(3, 2, 16, 4, 40, 32, device=device)  # layers apart, 1280 x 4 of a state
    state = torch.full((3, 2, 4, 40, 32), LOUD, device=device)
    kernels[0].per_token_commit(state[:, 1], states[:, 0], scalar(m, device))
    assert (state[:, 0] == LOUD).all()
    expected = states[:, 0, m - 1] if m else torch.full_like(state[:, 1], LOUD)
    assert torch.equal(state[:, 1], expected)


def test_replay_is_exact_over_rounds(kernels, device):
    """The state lags and the ring fills, yet outputs have the bits of `exact` from the state."""
    first = case(SHAPE, device, seed=2)
    ring, layers = factors(first, layers=2, rows=32), torch.stack([first.state, 2 * first.state])
    checkpoint, true, n = layers.clone(), [first.state, 2 * first.state], 0
    pending, scratch = scalar(0, device), scalar(0, device)
    for i, (w, m) in enumerate(ROUNDS):
        c = case(SHAPE, device, seed=10 + i)
        for layer in range(2):
            made, before = outputs(kernels, c), checkpoint.clone()
            kernels[0].replay_fused(
                c.raw, c.gates, checkpoint[layer], *made, ring.layer(layer), pending,
                scalar(w, device),
            )  # fmt: skip
            assert torch.equal(checkpoint, before)
            expected, true[layer] = exact_round(kernels, c, true[layer], w, m)
            same(made, expected, w)
        kernels[0].replay_commit(checkpoint, ring, pending, scratch, scalar(m, device))
        n += m
        if n > 16:
            n = 0
            assert torch.equal(checkpoint, torch.stack(true))
        else:
            assert torch.equal(checkpoint, before)
        assert (int(pending), int(scratch)) == (n, 0)


def test_replay_writes_behind_what_is_pending(kernels, device):
    """Rows of committed tokens stay, rows of no token stay, and what they hold does not matter."""
    c, n, w = case(SHAPE, device, seed=3), 5, 4
    ring = factors(c, rows=32).layer(0)
    for t in ring:
        t[:n] = 0.5
    made = outputs(kernels, c)
    pending = scalar(n, device)
    kernels[0].replay_fused(c.raw, c.gates, c.state, *made, ring, pending, scalar(w, device))
    for t in ring:
        assert (t[:n] == 0.5).all()
        assert t[n : n + w].isfinite().all()
        assert t[n + w :].isnan().all()
    assert all(t[:w].isfinite().all() for t in made)


@pytest.mark.parametrize("layers", [1, 9])  # 8 at a time in CUDA C++
def test_a_fold_reaches_every_layer(layers, kernels, device):
    x = [inputs(32, SHAPE, seed=i) for i in range(layers)]
    state = torch.stack([t.state for t in x]).to(device)
    parts = [(t.v, t.k, t.g.exp()) for t in x]
    ring = Ring(*(torch.stack(p).to(device) for p in zip(*parts, strict=True)))
    pending, scratch = scalar(16, device), scalar(0, device)
    one = state[:, None].clone()  # `exact` commits at most 16 at once
    for start in (0, 16):
        part = [t[:, start : start + 16].contiguous() for t in ring]
        kernels[2](one[:, 0], *part, scalar(16, device))
    kernels[0].replay_commit(state, ring, pending, scratch, scalar(16, device))
    assert torch.equal(state, one[:, 0])
    assert (int(pending), int(scratch)) == (0, 0)


@pytest.fixture
def cuda(device):
    if device.type != "cuda":
        pytest.skip("CUDA C++ needs a GPU; that it compiles is tested without one")
    from hybridspec.kernels.gdn import baselines_cuda, exact_cuda

    return baselines_cuda, exact_cuda


@pytest.mark.parametrize("shape", [(2, 4, 64, 16), (1, 4, 32, 8), (2, 4, 128, 40)])
def test_plain_forms_are_the_law_s(shape, cuda, device):
    """From q, k, v, beta and alpha: CUDA C++ alone has them."""
    ours, w = cuda[0], 11
    x = inputs(16, shape, seed=5)
    expected, after = (t.to(device) for t in law(x))
    x = type(x)(*(t.to(device) for t in x))
    tokens = (x.q, x.k, x.v, x.beta, x.g.exp(), x.state)
    o, states = torch.full_like(x.v, NAN), torch.full((16, *x.state.shape), NAN, device=device)
    ours.per_token(*tokens, o, states, scalar(w, device))
    assert distance(o[:w], expected[:w]) < OUTPUTS
    assert distance(states[:w], after[:w]) < STATES * 10  # w roundings a number, each 6e-8
    assert o[w:].isnan().all()
    assert states[w:].isnan().all()

    shapes = [t.shape[1:] for t in (x.v, x.k, x.beta)]
    ring = Ring(*(torch.full((1, 32, *s), NAN, device=device) for s in shapes))
    state, pending, scratch = x.state[None].clone(), scalar(0, device), scalar(0, device)
    again, start = torch.full_like(x.v, NAN), 0
    for m in (3, 8, 5):
        rest = type(x)(*(t.roll(-start, 0) for t in x[:5]), state[0])
        args = (rest.q, rest.k, rest.v, rest.beta, rest.g.exp(), state[0])
        ours.replay(*args, again, ring.layer(0), pending, scalar(m, device))
        if start + m <= w:
            assert torch.equal(again[:m], o[start : start + m])
        ours.replay_commit(state, ring, pending, scratch, scalar(m, device))
        start += m
    assert int(pending) == 16
    ours.replay_commit(state, ring, pending, scratch, scalar(0, device))
    assert torch.equal(state[0], x.state)
