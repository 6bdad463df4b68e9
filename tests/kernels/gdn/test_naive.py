"""The plain-torch Gated DeltaNet: splits, commits and the block form against a float64 recurrence.

Tolerances on float32 are relative Frobenius distances, as the paper states its own (D.3: with FP32
arithmetic below 1e-4 for outputs and 1e-6 for states). One rounding is 6e-8 and both forms add up
at most 16 tokens, so outputs are held to 1e-5 and states to 1e-6.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from gdn_forms import FORMS, LENGTHS, OUTPUTS, SHAPES, STATES, Inputs, distance, inputs, law, replay
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridspec.kernels.gdn import naive


def check(x: Inputs, verify) -> None:
    """Verify x and commit every m of it."""
    before = x.state.clone()
    run = verify(x)
    expected_o, states = law(x)
    assert torch.equal(x.state, before), "verification moved the state"
    assert distance(run.o, expected_o) < OUTPUTS
    for m in range(1, len(run.z) + 1):
        assert distance(run.commit(m), states[m - 1]) < STATES, f"m={m}"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", LENGTHS)
def test_every_length_and_every_commit(w, form):
    check(inputs(w, seed=w), FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_head_ratios_and_odd_sizes(shape, form):
    check(inputs(11, shape), FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("g", [0.0, -1e-7, -30.0, -1e4])
def test_extreme_decay(g, form):
    """From no decay at all to one that leaves nothing; e^-1e4 is 0 and must not turn into a NaN."""
    check(inputs(g=g), FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("g", [0.0, -1e4])
def test_one_key_for_ever_with_full_writing(g, form):
    """beta = 1 and equal keys: each token overwrites the one before."""
    check(inputs(g=g, beta=1.0, one_key=True), FORMS[form])


@pytest.mark.parametrize("form", FORMS)
def test_beta_of_zero_writes_nothing(form):
    x = inputs(beta=0.0, g=0.0)
    run = FORMS[form](x)
    assert not run.z.any()
    if form == "replay":  # x.state itself is a sum here
        assert distance(run.commit(16), x.state) < STATES
    else:
        assert torch.equal(run.commit(16), x.state)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("g", [-30.0, -300.0, -1e4])
def test_a_strong_decay_among_weak_ones(g, form):
    """Sums of decays past a strong one keep their small differences."""
    x = inputs()
    strong = torch.rand(x.g.shape, generator=torch.Generator().manual_seed(1)) < 0.3
    check(x._replace(g=torch.where(strong, g, -0.01)), FORMS[form])


@pytest.mark.parametrize("tokens", [1, 2, 7, 15, 16])
@pytest.mark.parametrize("w", [1, 5, 16])
def test_replay_from_any_number_of_tokens_in_the_ring(w, tokens):
    check(inputs(w), lambda x: replay(x, tokens))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_per_token_has_the_bits_of_exact(shape, dtype):
    for w in LENGTHS:
        x = inputs(w, shape, seed=w, dtype=dtype)
        stored, walked = FORMS["per-token"](x), FORMS["exact"](x)
        assert torch.equal(stored.o, walked.o)
        assert torch.equal(stored.z, walked.z)
        for m in range(1, w + 1):
            assert torch.equal(stored.commit(m), walked.commit(m))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", [1, 2, 8, 16])
def test_a_token_sees_no_later_token(w, form):
    """Other tokens after row w leave the first w results as they are, up to rounding."""
    x, other = inputs(), inputs(seed=1)
    mixed = [torch.cat((a[:w], b[w:])) for a, b in zip(x[:5], other[:5], strict=True)]
    ours, theirs = FORMS[form](x), FORMS[form](Inputs(*mixed, x.state))
    for a, b in ((ours.o, theirs.o), (ours.z, theirs.z)):
        torch.testing.assert_close(a[:w], b[:w], rtol=0, atol=1e-6)  # sums of size 1


@pytest.mark.parametrize("form", ["block", "exact"])
def test_commit_takes_leading_layers(form):
    """All layers in one call give what one call a layer gives."""
    commit = {"block": naive.commit, "exact": naive.retrace}[form]
    layers = [inputs(7, SHAPES[3], seed) for seed in range(6)]
    factors = [(x.state, FORMS[form](x).z, x.k, x.g) for x in layers]
    stacked = [torch.stack(parts).unflatten(0, (2, 3)) for parts in zip(*factors, strict=True)]
    together = commit(*stacked).flatten(0, 1)
    for ours, arguments in zip(together, factors, strict=True):
        # retrace is elementwise, so its bits cannot depend on the batch; a product's may
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
        state = naive.retrace(state, z[:m], part[1][:m], part[4][:m])
        start += m
    assert torch.equal(state, naive.retrace(x.state, whole_z[:start], x.k[:start], x.g[:start]))


def test_retrace_has_the_same_bits_from_strided_buffers():
    """The engine's factors are the first m rows of buffers of W, for several layers."""
    layers = [inputs(16, SHAPES[3], seed) for seed in range(3)]
    z = torch.stack([naive.recurrent(*x)[1] for x in layers])
    state, k, g = (torch.stack([x[i] for x in layers]) for i in (5, 1, 4))
    for m in LENGTHS:
        together = naive.retrace(state, z[:, :m], k[:, :m], g[:, :m])
        for i, x in enumerate(layers):
            alone = naive.retrace(x.state, z[i, :m].clone(), x.k[:m].clone(), x.g[:m].clone())
            assert torch.equal(together[i], alone)


@settings(deadline=None, max_examples=40)
@given(rounds=rounds, shape=st.sampled_from(SHAPES), seed=st.integers(0, 99))
def test_forms_mix_over_any_split(rounds, shape, seed):
    """In float64, rounds of all verifiers in turn commit the recurrence's states.

    1e-12: at most 128 tokens of rounding at 1e-16, on states that decay.
    """
    kept = [min(m, w - 1) + 1 for w, m in rounds]
    x = inputs(sum(kept) + 16, shape, seed, torch.float64)
    _, states = law(x)
    state, start = x.state, 0
    for ((w, _), m), form in zip(zip(rounds, kept, strict=True), itertools.cycle(FORMS)):
        state = FORMS[form](Inputs(*x.rows(start, start + w), state)).commit(m)
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
