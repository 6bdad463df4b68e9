"""The two sampling kernels against the runtime's law, and their bits against themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampled import SMALL, UNTOUCHED, logits_of, run, run_many, undecided
from scipy import stats

from hybridspec.core import SamplingParams
from hybridspec.kernels.sampling import naive
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.runtime.sampling import target_tokens, weights

FILTERS = [
    {},
    {"top_k": 20},
    {"top_p": 0.95},
    {"min_p": 0.05},
    {"top_k": 20, "top_p": 0.95},
    {"top_k": 200, "top_p": 0.9, "min_p": 0.01},
]
CASES = [{"temperature": 0.8, **f} for f in FILTERS]
NAMES = ["-".join(f"{key}={value}" for key, value in case.items()) for case in CASES]
GPU = torch.cuda.is_available()
MANY = 4096 if GPU else 32  # the interpreter takes some 40 ms a row
DRAWS = 20_000
P_VALUE = 1e-4  # a correct sampler falls below it at one seed in ten thousand; seeds are fixed


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_tokens_are_the_law_s(case, device):
    """But for the few draws that lie on a border, to the error of the masses."""
    params, seed = SamplingParams(**case), 2**64 - 5
    logits = logits_of(MANY, 500)
    ours, law = (
        run_many(logits, params, device, seed),
        target_tokens(logits, torch.arange(MANY), params, seed),
    )
    near = undecided(logits, params, seed)
    assert near.float().mean() < 0.02  # three borders at most: 41 of 4,096 rows lie at one
    assert torch.equal(ours[~near], law[~near])


@pytest.mark.parametrize("case", [{"temperature": 0.0}, *(CASES if GPU else CASES[::5])])
def test_a_row_depends_neither_on_the_length_nor_on_others_nor_on_the_cut(case, device):
    params, logits = SamplingParams(**case), logits_of(16 if GPU else 6, 300, scale=1.0, seed=3)
    w = len(logits)
    together, _ = run(logits, params, device, position=2**33)
    few, bad = run(logits, params, device, position=2**33, length=3)
    assert torch.equal(few[:3], together[:3])
    assert few[3:].tolist() == [UNTOUCHED] * 13
    assert bad.tolist() == [0] * 16
    hostile = logits.clone()
    hostile[:3], hostile[4], hostile[5] = torch.nan, 3e38, -torch.inf
    assert run(hostile, params, device, position=2**33)[0][3] == together[3]
    for config in (SampleConfig(64, 16, 32), SampleConfig(128, 128, 16, 2)):
        cut, _ = run(logits[: w // 3], params, device, position=2**33, config=config)
        assert torch.equal(cut[: w // 3], together[: w // 3])


@pytest.mark.skipif(not GPU, reason="20,000 draws take the interpreter minutes")
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_draws_follow_the_distribution(case, device):
    params, row = SamplingParams(**case), logits_of(1, 24, scale=1.0, seed=5)
    counts = torch.bincount(run_many(row.expand(DRAWS, -1), params, device, 11), minlength=24)
    mass = weights(row, params)[0].double().numpy()
    expected, counts = mass / mass.sum() * DRAWS, counts.numpy()
    assert counts[expected == 0].sum() == 0
    common = expected >= 5
    rest = [(~common & (expected > 0)).any()]
    observed = np.append(counts[common], counts[~common].sum())[: common.sum() + rest[0]]
    expected = np.append(expected[common], expected[~common].sum())[: common.sum() + rest[0]]
    assert stats.chisquare(observed, expected).pvalue > P_VALUE


def test_greedy_takes_the_first_of_equals(device):
    logits = logits_of(16, 500)
    logits[3, [17, 130, 480]] = 99.0
    logits[4], logits[5, 7:] = -1.0, -0.0
    logits[5, :7], logits[5, 40] = -1.0, 0.0
    tokens, bad = run(logits, SamplingParams(), device, config=SampleConfig(128, 16))
    assert tokens[3:6].tolist() == [17, 0, 7]
    assert torch.equal(tokens, torch.tensor([r.tolist().index(max(r.tolist())) for r in logits]))
    assert not bad.any()


@pytest.mark.parametrize("case", [{"temperature": 0.0}, CASES[0], CASES[-1]])
def test_rows_that_cannot_be_sampled_are_told_and_hurt_no_other(case, device):
    params, logits = SamplingParams(**case), logits_of(6, 300)
    logits[1, 299], logits[2, 0], logits[3] = torch.nan, torch.inf, -torch.inf
    logits[4, 5], logits[4, 6] = -torch.nan, torch.inf
    law, told = naive.sample(logits, torch.arange(6), params, 1)
    tokens, bad = run(logits, params, device, config=SampleConfig(64, 16))
    assert told.tolist() == [0, 1, 1, 1, 1, 0]
    assert torch.equal(bad[:6], told)
    assert torch.equal(tokens[:6], law)


def kept_by(logits, params, device):
    """Which tokens come up at all in 32 draws from one row."""
    return set(run_many(logits.expand(32, -1), params, device).tolist())


@pytest.mark.parametrize("case", [{"top_k": 2}, {"top_p": 0.6}, {"top_k": 3, "top_p": 0.6}])
def test_ties_at_a_filter_are_kept_together(case, device):
    row = torch.tensor([[2.0, 1.0, 1.0, 1.0, 0.0]])
    assert kept_by(row, SamplingParams(temperature=1.0, **case), device) == {0, 1, 2, 3}


@pytest.mark.parametrize("case", [{"top_p": 1e-300}, {"top_k": 1}, {"min_p": 1.0}])
def test_the_narrowest_filter_keeps_one_token(case, device):
    logits = logits_of(4, 300)
    tokens, _ = run(logits, SamplingParams(temperature=1.0, **case), device)
    assert torch.equal(tokens[:4], logits.argmax(-1))


@pytest.mark.parametrize(
    "case",
    [{"top_k": 300}, {"top_k": 10**6}, {"top_p": 1 - 2**-53}, {"top_k": 299}, {"min_p": 1e-300}],
)
@pytest.mark.parametrize("scale", [0.0, 0.01, 30.0])
def test_filters_that_drop_next_to_nothing(case, scale, device):
    """Flat rows, where all are candidates and ties abound; and steep ones."""
    logits, params = logits_of(4, 300, scale), SamplingParams(temperature=1.0, **case)
    law = target_tokens(logits, torch.arange(4), params, 1)
    near = undecided(logits, SamplingParams(temperature=1.0), 1)  # filters are far off
    assert torch.equal(run(logits, params, device)[0][:4][~near], law[~near])


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_few_finite_logits(case, device):
    """As behind a grammar's mask: fewer than k, in one group; huge; and only one."""
    logits = torch.full((3, 300), -torch.inf)
    logits[0, 40:48] = torch.arange(8) * 0.1
    logits[1, 5], logits[1, 200], logits[2, 299] = 3e38, -3e38, -7.0
    params = SamplingParams(**case)
    law = target_tokens(logits, torch.arange(3), params, 1)
    assert torch.equal(run(logits, params, device, config=SMALL)[0][:3], law)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature, device):
    logits = logits_of(4, 300)
    tokens, _ = run(logits, SamplingParams(temperature=temperature), device)
    assert torch.equal(tokens[:4], logits.argmax(-1))


def test_bf16_logits_are_widened(device):
    """What a head in bf16 leaves: ties among the largest, all kept."""
    logits, params = logits_of(4, 300).bfloat16(), SamplingParams(temperature=1.0, top_k=20)
    assert torch.equal(run(logits.float(), params, device)[0], run(logits, params, device)[0])


@pytest.mark.parametrize("vocabulary", [1, 2, 97, 8192, 248_320, 1_000_003])
def test_a_cut_is_made_of_powers_of_two_and_covers_the_row(vocabulary):
    c = SampleConfig.choose(vocabulary)
    for n in (c.chunk, c.group, c.block, c.warps):
        assert n & (n - 1) == 0
    assert c.chunk % c.group == 0
    assert (c.chunks(vocabulary) - 1) * c.chunk < vocabulary <= c.chunks(vocabulary) * c.chunk


def test_the_cut_of_known_sizes():
    assert SampleConfig.choose(8192) == SampleConfig(512, 16, 64)
    assert SampleConfig.choose(248_320) == SampleConfig(2048, 256)
