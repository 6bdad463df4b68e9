"""The plain-torch Gated DeltaNet: splits, commits and the block form against a float64 recurrence.

Tolerances on float32 are relative Frobenius distances, as the paper states its own (D.3: with FP32
arithmetic below 1e-4 for outputs and 1e-6 for states). One rounding is 6e-8 and both forms add up
at most 16 tokens, so outputs are held to 1e-5 and states to 1e-6.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hybridspec.kernels.gdn import naive

OUTPUTS, STATES = 1e-5, 1e-6
# key heads, value heads, dk, dv: head ratios 1, 2, 4 and sizes no vector width divides
SHAPES = [(2, 2, 16, 16), (2, 4, 16, 16), (1, 4, 32, 8), (3, 6, 7, 13), (1, 1, 1, 1)]
LENGTHS = range(1, 17)


class Inputs(NamedTuple):
    """Arguments of a verification, in order."""

    q: Tensor
    k: Tensor
    v: Tensor
    beta: Tensor
    g: Tensor
    state: Tensor

    def to(self, dtype: torch.dtype) -> Inputs:
        return Inputs(*(t.to(dtype) for t in self))

    def rows(self, start: int, stop: int) -> tuple[Tensor, ...]:
        """q, k, v, beta, g of tokens start..stop-1."""
        return tuple(t[start:stop] for t in self[:5])


def inputs(w=16, shape=SHAPES[1], seed=0, dtype=torch.float32, g=None, beta=None, one_key=False):
    """Random tokens on a random state; `g` and `beta` fix the gates, `one_key` repeats one key."""
    key_heads, value_heads, dk, dv = shape
    generator = torch.Generator().manual_seed(seed)

    def normal(*size):
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    q, k = (torch.nn.functional.normalize(normal(w, key_heads, dk), dim=-1) for _ in range(2))
    gates = normal(2, w, value_heads)
    made = Inputs(
        q * dk**-0.5,
        k[:1].expand_as(k).contiguous() if one_key else k,
        normal(w, value_heads, dv),
        gates[0].sigmoid() if beta is None else torch.full_like(gates[0], beta),
        -torch.nn.functional.softplus(gates[1]) if g is None else torch.full_like(gates[1], g),
        normal(value_heads, dv, dk),
    )
    return made.to(dtype)


def law(x: Inputs) -> tuple[Tensor, Tensor]:
    """Outputs [w, VH, dv] and all states [w, VH, dv, dk] in float64, head by head."""
    q, k, v, beta, g, state = x.to(torch.float64)
    w, heads = beta.shape
    shared = heads // k.shape[1]
    o, states = torch.empty_like(v), state.new_empty(w, *state.shape)
    for j in range(heads):
        s = state[j]
        for t in range(w):
            s = s * g[t, j].exp()
            key = k[t, j // shared]
            s = s + torch.outer(beta[t, j] * (v[t, j] - s @ key), key)
            o[t, j], states[t, j] = s @ q[t, j // shared], s
    return o, states


def distance(ours: Tensor, exact: Tensor) -> float:
    return float((ours - exact).norm() / exact.norm().clamp_min(1e-30))


FORMS = {"block": (naive.block, naive.commit), "exact": (naive.recurrent, naive.replay)}


def check(x: Inputs, form: str) -> None:
    """Verify x and commit every m of it."""
    verify, commit = FORMS[form]
    before = x.state.clone()
    o, z = verify(*x)
    expected_o, states = law(x)
    assert torch.equal(x.state, before), "verification moved the state"
    assert distance(o, expected_o) < OUTPUTS
    for m in range(1, len(z) + 1):
        assert distance(commit(x.state, z[:m], x.k[:m], x.g[:m]), states[m - 1]) < STATES, f"m={m}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", LENGTHS)
def test_every_length_and_every_commit(w, form):
    check(inputs(w, seed=w), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_head_ratios_and_odd_sizes(shape, form):
    check(inputs(11, shape), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("g", [0.0, -1e-7, -30.0, -1e4])
def test_extreme_decay(g, form):
    """From no decay at all to one that leaves nothing; e^-1e4 is 0 and must not turn into a NaN."""
    check(inputs(g=g), form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("g", [0.0, -1e4])
def test_one_key_for_ever_with_full_writing(g, form):
    """beta = 1 and equal keys: each token overwrites the one before."""
    check(inputs(g=g, beta=1.0, one_key=True), form)


@pytest.mark.parametrize("form", FORMS)
def test_beta_of_zero_writes_nothing(form):
    x = inputs(beta=0.0, g=0.0)
    _, z = FORMS[form][0](*x)
    assert not z.any()
    assert torch.equal(FORMS[form][1](x.state, z, x.k, x.g), x.state)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", [1, 2, 8, 16])
def test_a_token_sees_no_later_token(w, form):
    """Other tokens after row w leave the first w results as they are, up to rounding."""
    verify = FORMS[form][0]
    x, other = inputs(), inputs(seed=1)
    mixed = [torch.cat((a[:w], b[w:])) for a, b in zip(x[:5], other[:5], strict=True)]
    for ours, theirs in zip(verify(*x), verify(*mixed, x.state), strict=True):
        torch.testing.assert_close(ours[:w], theirs[:w], rtol=0, atol=1e-6)  # sums of size 1


@pytest.mark.parametrize("form", FORMS)
def test_commit_takes_leading_layers(form):
    """All layers in one call give what one call a layer gives."""
    verify, commit = FORMS[form]
    layers = [inputs(7, SHAPES[3], seed) for seed in range(6)]
    factors = [(x.state, verify(*x)[1], x.k, x.g) for x in layers]
    stacked = [torch.stack(parts).unflatten(0, (2, 3)) for parts in zip(*factors, strict=True)]
    together = commit(*stacked).flatten(0, 1)
    for ours, arguments in zip(together, factors, strict=True):
        # replay is elementwise, so its bits cannot depend on the batch; a product's may
        exact = form == "exact"
        assert (
            torch.equal(ours, commit(*arguments))
            if exact
            else (distance(ours, commit(*arguments)) < STATES)
        )


rounds = st.lists(st.tuples(st.integers(1, 16), st.integers(0, 15)), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(rounds=rounds, shape=st.sampled_from(SHAPES), seed=st.integers(0, 99))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exact_has_the_same_bits_over_any_split(dtype, rounds, shape, seed):
    """Rounds that verify w tokens and keep m <= w, against one pass over the kept tokens."""
    kept = [min(m, w - 1) + 1 for w, m in rounds]
    x = inputs(sum(kept) + 16, shape, seed, dtype)
    whole_o, whole_z = naive.recurrent(*x)
    state, start = x.state, 0
    for (w, _), m in zip(rounds, kept, strict=True):
        part = x.rows(start, start + w)
        o, z = naive.recurrent(*part, state)
        assert torch.equal(o[:m], whole_o[start : start + m])
        assert torch.equal(z[:m], whole_z[start : start + m])
        state = naive.replay(state, z[:m], part[1][:m], part[4][:m])
        start += m
    assert torch.equal(state, naive.replay(x.state, whole_z[:start], x.k[:start], x.g[:start]))


def test_replay_has_the_same_bits_from_strided_buffers():
    """The engine's factors are the first m rows of buffers of W, for several layers."""
    layers = [inputs(16, SHAPES[3], seed) for seed in range(3)]
    z = torch.stack([naive.recurrent(*x)[1] for x in layers])
    state, k, g = (torch.stack([x[i] for x in layers]) for i in (5, 1, 4))
    for m in LENGTHS:
        together = naive.replay(state, z[:, :m], k[:, :m], g[:, :m])
        for i, x in enumerate(layers):
            alone = naive.replay(x.state, z[i, :m].clone(), x.k[:m].clone(), x.g[:m].clone())
            assert torch.equal(together[i], alone)


@settings(deadline=None, max_examples=40)
@given(rounds=rounds, shape=st.sampled_from(SHAPES), seed=st.integers(0, 99))
def test_forms_mix_over_any_split(rounds, shape, seed):
    """In float64, block and exact rounds in turn commit the recurrence's states.

    1e-12: at most 128 tokens of rounding at 1e-16, on states that decay.
    """
    kept = [min(m, w - 1) + 1 for w, m in rounds]
    x = inputs(sum(kept) + 16, shape, seed, torch.float64)
    _, states = law(x)
    state, start = x.state, 0
    for ((w, _), m), form in zip(zip(rounds, kept, strict=True), itertools.cycle(FORMS)):
        verify, commit = FORMS[form]
        part = x.rows(start, start + w)
        _, z = verify(*part, state)
        state = commit(state, z[:m], part[1][:m], part[4][:m])
        start += m
        assert distance(state, states[start - 1]) < 1e-12


@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("tokens", [1, 63, 64, 65, 150])
def test_prefill_in_any_chunks(tokens, chunk):
    x = inputs(tokens, SHAPES[2])
    o, state = naive.prefill(*x, chunk=chunk)
    expected_o, states = law(x)
    assert distance(o, expected_o) < OUTPUTS
    assert distance(state, states[-1]) < OUTPUTS  # 150 tokens on, not 16
