import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.runtime.philox import uniform
from hybridspec.runtime.sampling import accept, draw, target_tokens, weights

DRAWS = 200_000
# A correct sampler falls below this at one seed in ten thousand; the seeds here are fixed.
P_VALUE = 1e-4

FILTERS = [
    {},
    {"top_k": 20},
    {"top_p": 0.95},
    {"min_p": 0.05},
    {"top_k": 20, "top_p": 0.95},
    {"top_k": 20, "top_p": 0.95, "min_p": 0.05},
]
CASES = [{"temperature": t, **f} for t in (0.6, 1.0) for f in FILTERS]
NAMES = ["-".join(f"{key}={value}" for key, value in case.items()) for case in CASES]


def logits_of(rows, vocabulary, scale=2.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, vocabulary, generator=generator) * scale


def by_transformers(logits, params):
    """[w, V] float64 probabilities by the logits warpers of transformers, in its order."""
    scores = TemperatureLogitsWarper(params.temperature)(None, logits.double())
    if params.top_k:
        scores = TopKLogitsWarper(params.top_k)(None, scores)
    if params.top_p < 1:
        scores = TopPLogitsWarper(params.top_p)(None, scores)
    if params.min_p:
        scores = MinPLogitsWarper(params.min_p)(None, scores)
    return scores.softmax(-1)


def normal(mass):
    """Weights as probabilities; torch divides integers in float32, which is too coarse here."""
    return mass.double() / mass.sum(-1, keepdim=True)


def sample(row, params, seed, chunk=20_000):
    """DRAWS tokens from one row of logits, at positions 0, 1, 2, ..."""
    rows = row.expand(chunk, -1)
    starts = range(0, DRAWS, chunk)
    return torch.cat(
        [target_tokens(rows, torch.arange(s, s + chunk), params, seed) for s in starts]
    )


def chi_square(counts, probabilities):
    """P-value of counts under probabilities; cells that expect fewer than 5 are taken together."""
    expected = probabilities / probabilities.sum() * counts.sum()
    assert counts[expected == 0].sum() == 0
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    used = expected > 0
    return stats.chisquare(observed[used], expected[used]).pvalue


# ---- the distribution


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_weights_are_the_probabilities_of_transformers(case):
    params = SamplingParams(**case)
    logits = logits_of(32, 500)
    expected = by_transformers(logits, params)
    mass = weights(logits, params)
    assert torch.equal(mass > 0, expected > 0)
    # exp in fp32 is good to about 1e-7 of its value, the shift by the maximum to 1e-6.
    torch.testing.assert_close(normal(mass), expected, rtol=3e-6, atol=0)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_draws_follow_the_distribution(case):
    params = SamplingParams(**case)
    row = logits_of(1, 40, seed=5)
    counts = torch.bincount(sample(row, params, seed=11), minlength=40).numpy()
    assert chi_square(counts, by_transformers(row, params)[0].numpy()) > P_VALUE


def test_chi_square_sees_a_small_error():
    """The test above has the power to matter: 4 % too much on one token of twelve is found."""
    row = logits_of(1, 12, scale=0.5)
    counts = torch.bincount(sample(row, SamplingParams(temperature=1.0), seed=1)).numpy()
    wrong = row[0].double().softmax(-1).numpy()
    assert chi_square(counts, wrong) > P_VALUE
    wrong[wrong.argmax()] *= 1.04
    assert chi_square(counts, wrong) < P_VALUE


@pytest.mark.parametrize("rank", [0, 1, 3, 11])
def test_what_is_emitted_follows_the_target_whatever_is_drafted(rank):
    """Point mass, coupled: a fixed draft changes how often it is accepted, never what comes out."""
    params = SamplingParams(temperature=1.0)
    row = logits_of(1, 12, scale=1.0, seed=3)
    p = row[0].double().softmax(-1)
    draft = p.argsort(descending=True)[rank : rank + 1]
    tokens = sample(row, params, seed=17)
    pairs = tokens.view(-1, 2)
    accepted = torch.stack([accept(draft, pair) for pair in pairs[:20_000]])
    emitted = torch.where(accepted > 0, draft, pairs[:20_000, 0])
    assert chi_square(torch.bincount(emitted, minlength=12).numpy(), p.numpy()) > P_VALUE
    hits = int(accepted.sum())
    assert stats.binomtest(hits, 20_000, float(p[draft])).pvalue > P_VALUE


# ---- one row, one draw


@pytest.mark.parametrize("case", CASES, ids=NAMES)
@pytest.mark.parametrize("vocabulary", [97, 8192])
def test_a_row_is_drawn_alike_alone_and_among_sixteen(case, vocabulary):
    params = SamplingParams(**case)
    logits, positions = logits_of(16, vocabulary), torch.arange(1000, 1016)
    together = target_tokens(logits, positions, params, 7)
    alone = [target_tokens(logits[i : i + 1], positions[i : i + 1], params, 7) for i in range(16)]
    assert together.dtype == torch.int64
    assert torch.equal(together, torch.cat(alone))
    mass = weights(logits, params)
    assert torch.equal(mass, torch.cat([weights(logits[i : i + 1], params) for i in range(16)]))


def test_seed_and_position_decide():
    logits = logits_of(1, 1000, scale=0.1).expand(64, -1)
    params = SamplingParams(temperature=1.0)
    tokens = target_tokens(logits, torch.arange(64), params, 1)
    assert torch.equal(tokens, target_tokens(logits, torch.arange(64), params, 1))
    assert (tokens != target_tokens(logits, torch.arange(64), params, 2)).any()
    assert tokens.unique().numel() > 32
    same = target_tokens(logits, torch.full((64,), 5), params, 1)
    assert same.unique().tolist() == [int(tokens[5])]


def test_draw_is_the_inverse_of_the_running_weight():
    mass = torch.tensor([[0, 3, 0, 1, 0]]).expand(6, -1)
    u = torch.tensor([0.0, 0.5, 0.7499, 0.75, 0.9, 1.0 - 2.0**-53], dtype=torch.float64)
    assert draw(mass, u).tolist() == [1, 1, 1, 3, 3, 3]


@settings(deadline=None)
@given(total=st.one_of(st.integers(1, 2**62 - 1), st.integers(2, 62).map(lambda n: 2**n - 1)))
def test_a_uniform_number_next_to_one_stays_inside_the_total(total):
    """float64 holds neither every total nor every product; the last token, of weight 0, is out."""
    mass = torch.tensor([[total // 3, total - total // 3, 0]])
    u = torch.tensor([1.0 - 2.0**-53], dtype=torch.float64)
    assert draw(mass, u).tolist() == [1]


def test_the_largest_total_fits():
    flat = weights(torch.zeros(1, 248_320), SamplingParams(temperature=1.0))
    assert 0 < int(flat.sum()) < 2**62


# ---- greedy


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_greedy_takes_the_first_of_equals(dtype):
    logits = logits_of(16, 8192).to(dtype)
    logits[3, [17, 4000, 8000]] = 99.0
    tokens = target_tokens(logits, torch.arange(16), SamplingParams())
    assert int(tokens[3]) == 17
    assert tokens.tolist() == [row.tolist().index(max(row.tolist())) for row in logits]


# ---- edges


def test_top_k_above_the_vocabulary_keeps_all():
    logits = logits_of(4, 50)
    whole = weights(logits, SamplingParams(temperature=1.0))
    for k in (50, 51, 10**6):
        assert torch.equal(weights(logits, SamplingParams(temperature=1.0, top_k=k)), whole)


@pytest.mark.parametrize("case", [{"top_p": 1e-9}, {"top_k": 1}, {"min_p": 1.0}])
def test_the_narrowest_filter_keeps_one_token(case):
    logits = logits_of(16, 300)
    params = SamplingParams(temperature=1.0, **case)
    assert (weights(logits, params) > 0).sum(-1).tolist() == [1] * 16
    assert torch.equal(target_tokens(logits, torch.arange(16), params, 3), logits.argmax(-1))


def test_ties_at_a_filter_are_kept_together():
    logits = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])
    for case in ({"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.6}):
        kept = weights(logits, SamplingParams(temperature=1.0, **case)) > 0
        assert kept.tolist() == [[True, True, True, True, False]]


@pytest.mark.parametrize("top_p", [0.5, 0.97, 0.999999])
def test_a_nucleus_wider_than_the_first_look(top_p):
    """Flat rows: 128, then 2,048 candidates do not reach top_p. A steep row goes with them."""
    logits = logits_of(4, 5000, scale=0.3)
    logits[2] *= 40
    params = SamplingParams(temperature=1.0, top_p=top_p)
    expected = by_transformers(logits, params) > 0
    kept = weights(logits, params) > 0
    assert kept[0].sum() > min(2048, 5000 * top_p / 3)
    # The borders agree to the rounding of a cumulative sum over 5,000 terms: one token at most.
    assert ((kept != expected).sum(-1) <= 1).all()


def test_the_largest_top_p_below_one_drops_nothing_that_counts():
    logits = logits_of(4, 200, scale=0.5)
    params = SamplingParams(temperature=1.0, top_p=1.0 - 2**-53)
    assert (weights(logits, params) > 0).all()


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_all_but_one_minus_infinity(case):
    logits = torch.full((2, 64), -torch.inf)
    logits[0, 9], logits[1, 63] = -3.0, 1e30
    assert target_tokens(logits, torch.arange(2), SamplingParams(**case), 1).tolist() == [9, 63]


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-45, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature):
    logits = logits_of(16, 300)
    tokens = target_tokens(logits, torch.arange(16), SamplingParams(temperature=temperature), 1)
    assert torch.equal(tokens, logits.argmax(-1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_types_are_widened_first(dtype):
    logits = logits_of(8, 400).to(dtype)
    params = SamplingParams(temperature=0.6, top_k=20, top_p=0.95)
    assert torch.equal(weights(logits, params), weights(logits.float(), params))


def test_fp64_logits_are_not_narrowed():
    logits = logits_of(4, 100).double() + torch.rand(4, 100, dtype=torch.float64) * 1e-12
    mass = weights(logits, SamplingParams(temperature=1.0))
    # Weights are rounded down to one part in 2^55 of the largest at V = 100; fp64 exp to 1e-16.
    torch.testing.assert_close(normal(mass), logits.softmax(-1), rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_logits_that_are_no_numbers_are_refused_by_position(value, temperature):
    logits = logits_of(16, 100)
    logits[5, 40] = value
    with pytest.raises(HybridSpecError, match="position 105 "):
        target_tokens(logits, torch.arange(100, 116), SamplingParams(temperature=temperature), 1)


def test_a_row_without_any_token_is_refused():
    with pytest.raises(HybridSpecError, match="position 7 "):
        target_tokens(torch.full((1, 9), -torch.inf), torch.tensor([7]), SamplingParams())


# ---- acceptance


def test_accept_counts_leading_matches_only():
    y = torch.tensor([4, 5, 6, 7])
    for drafts, count in [([4, 5, 6], 3), ([4, 5, 0], 2), ([4, 0, 6], 1), ([0, 5, 6], 0), ([], 0)]:
        proposal = torch.tensor(drafts, dtype=torch.int64)
        assert int(accept(proposal, y[: len(drafts) + 1])) == count


def test_the_draw_uses_the_number_of_its_position():
    logits = torch.zeros(50, 10)
    tokens = target_tokens(logits, torch.arange(50), SamplingParams(temperature=1.0), 23)
    assert tokens.tolist() == (uniform(23, torch.arange(50)) * 10).long().tolist()
