"""Tokens and scores of the head against float64, on random and on hostile logits."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from hybridspec.core import SamplingParams
from hybridspec.errors import HybridSpecError
from hybridspec.kernels.head import head as ours
from hybridspec.kernels.head import naive
from hybridspec.kernels.head.config import HeadConfig
from hybridspec.kernels.linear import naive as linear
from hybridspec.kernels.linear.norm import Next, Normed, prepare
from hybridspec.runtime.sampling import target_tokens

EPS = 1e-6
SMALL = HeadConfig(16, 16)
JOINED = HeadConfig(16, 32, joined=True)
# V, K: one token, sizes that no tile divides, one tile, many
SIZES = [(1, 1), (33, 70), (64, 128), (200, 48)]
PRODUCT = 1e-6  # fp32 sums of at most 128 products, each rounded to 6e-8
SCORES = 1e-5  # fp32: exponentials of numbers up to about 20, each rounded to 6e-8 of itself


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def run(x: Normed, eps: float, w: torch.Tensor, config: HeadConfig | None = None, **more):
    """Answer and logits, from scratch memory that holds nothing but NaN."""
    device = w.device
    tiles, answer = ours.Tiles.empty(*w.shape, device, config), ours.Answer.empty(device)
    tiles.best.fill_(0x7FFFFFFF << 32)
    tiles.sums.fill_(math.nan)
    logits = torch.full((16, w.shape[0]), math.nan, device=device)
    ours.head(x, eps, w, tiles, answer, logits, config=config, scored=True, **more)
    assert not tiles.arrived.any()
    return answer, logits


def stream(k: int, device, seed: int = 0) -> tuple[Normed, torch.Tensor]:
    """A stream that was left for its norm, and that norm in float64."""
    x, factor = normal(16, k, seed=seed).to(device), normal(k, seed=seed + 1).to(device)
    after = Next(factor, Normed.empty(k, torch.float32, device))
    prepare(x, after)
    return after.normed, linear.norm(x.double().cpu(), factor.double().cpu(), EPS)


def exact(logits: torch.Tensor, device) -> tuple[Normed, torch.Tensor]:
    """A stream and a head whose logits are these, bit for bit; the norm's scale is 1. What is not
    finite comes about in its own row: 10 times +-3e38 overflows, and 0 times it does not. NaN is
    the sum of both; a fused multiply-add adds the second before it overflows, and leaves inf. A
    row of NaN alone is one of the stream's."""
    t = logits.T
    up, down = (t == math.inf) | t.isnan(), (t == -math.inf) | t.isnan()
    w = torch.cat((t.where(t.isfinite(), 0.0), 3e38 * up, -3e38 * down), 1).contiguous().to(device)
    eye = torch.eye(16)
    scaled = torch.cat((eye, 10 * eye, 10 * eye), 1).to(device)
    scaled[logits.isnan().all(1)] = math.nan
    return Normed(scaled, torch.ones(3, 16, device=device) * 16), w


def assert_law(answer: ours.Answer, logits: torch.Tensor) -> None:
    """The law in float64 on the logits that the kernel itself had."""
    wide = logits.double().cpu()
    assert answer.tokens.tolist() == naive.choose(wide).tolist()
    torch.testing.assert_close(answer.top.cpu(), logits.cpu().amax(-1), rtol=0, atol=0,
                               equal_nan=True)  # fmt: skip
    confidence, entropy = naive.score(wide)
    for found, law in ((answer.confidence, confidence), (answer.entropy, entropy)):
        torch.testing.assert_close(found.double().cpu(), law, rtol=SCORES, atol=SCORES)


@pytest.mark.parametrize("config", [None, SMALL, JOINED])
@pytest.mark.parametrize(("v", "k"), SIZES)
def test_random_rows(v, k, config, device):
    x, normed = stream(k, device)
    w = normal(v, k, seed=5).to(device)
    answer, logits = run(x, EPS, w, config)
    law = F.linear(normed, w.double().cpu())
    assert (logits.double().cpu() - law).norm() / law.norm() < PRODUCT
    assert_law(answer, logits)


def hostile() -> torch.Tensor:
    """[16, 50]: a row of each kind that hurts; tiles of 16 cut it, the last one unevenly."""
    logits = 3 * normal(16, 50, seed=7)
    inf, nan = math.inf, math.nan
    logits[0] = 0.0  # all equal
    logits[1, [3, 20, 49]] = 30.0  # ties within and across tiles
    logits[2] = -logits[2].abs() - 1
    logits[2, [9, 40]] = torch.tensor([-0.0, 0.0])
    logits[3, 33] = 1e30
    logits[4, 48] = -1e30
    logits[5, 16:32] = -inf  # a whole tile
    logits[6] = -inf
    logits[6, 17] = -5.0  # one token left
    logits[7] = -inf  # none left
    logits[8, 12] = inf
    logits[9, 13] = nan
    logits[10, 1], logits[10, 30] = nan, inf
    logits[11, 49] = nan
    logits[12] = nan
    logits[13] = -3e38
    logits[14, ::2] = -inf
    return logits


@pytest.mark.parametrize("config", [SMALL, JOINED, HeadConfig(64, 16)])
def test_hostile_rows(config, device):
    logits = hostile()
    answer, made = run(*swap(exact(logits, device)), config=config)
    alone = logits.isnan() & ~logits.isnan().all(1, keepdim=True)  # or inf: see `exact`
    assert not made.cpu()[alone].isfinite().any()
    torch.testing.assert_close(made.cpu()[~alone], logits[~alone], rtol=0, atol=0, equal_nan=True)
    assert_law(answer, made)
    assert answer.tokens.tolist()[7:13] == [-1] * 6
    assert answer.tokens.tolist()[:4] == [0, 3, 9, 33]


def swap(made: tuple[Normed, torch.Tensor]) -> tuple[Normed, float, torch.Tensor]:
    return made[0], 0.0, made[1]


def test_the_law_finds_no_token_where_the_sampler_refuses():
    logits = hostile()
    for row, token in zip(logits, naive.choose(logits).tolist(), strict=True):
        position = torch.zeros(1, dtype=torch.long)
        if token < 0:
            with pytest.raises(HybridSpecError, match="finite"):
                target_tokens(row[None], position, SamplingParams())
        else:
            assert int(target_tokens(row[None], position, SamplingParams())) == token


@pytest.mark.parametrize("config", [SMALL, JOINED])
def test_a_row_depends_on_no_other(config, device):
    x, _ = stream(70, device)
    w = normal(33, 70, seed=5).to(device)
    first, logits = run(x, EPS, w, config)
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1)).to(device)
    moved = Normed(x.scaled[order].clone(), x.squares[:, order].contiguous())
    moved.scaled[5], moved.squares[:, 11] = math.nan, math.inf
    second, others = run(moved, EPS, w, config)
    rest = [i for i in range(16) if i not in (5, 11)]
    for a, b in zip((*first, logits), (*second, others), strict=True):
        assert torch.equal(a[order][rest], b[rest])
    assert int(second.tokens[5]) == -1


@pytest.mark.parametrize("config", [SMALL, JOINED])
def test_a_drafter_s_tokens_are_the_next_input(config, device):
    made = swap(exact(hostile(), device))
    plain, _ = run(*made, config=config)
    anchor = torch.tensor([41], device=device)
    answer, _ = run(*made, config=config, anchor=anchor)
    assert answer.tokens.tolist() == [41, *plain.tokens.clamp_min(0).tolist()[1:]]
    for a, b in zip(answer[2:], plain[2:], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("config", [SMALL, JOINED])
def test_what_is_not_asked_for_is_not_needed(config, device):
    """Neither logits nor scores; and one scratch serves both forms, call after call."""
    x, _ = stream(70, device)
    w = normal(33, 70, seed=5).to(device)
    tiles = ours.Tiles.empty(33, 70, device, config)
    answers = [ours.Answer.empty(device) for _ in range(3)]
    for answer, scored in zip(answers, (False, True, False), strict=True):
        ours.head(x, EPS, w, tiles, answer, config=config, scored=scored)
    assert all(torch.equal(a.tokens, answers[0].tokens) for a in answers)
    assert all(torch.equal(a.top, answers[0].top) for a in answers)
    assert answers[1].entropy.all()
    assert not answers[2].entropy.any()


def test_scratch_of_another_size_is_refused(device):
    x, _ = stream(70, device)
    w = normal(33, 70, seed=5).to(device)
    with pytest.raises(ValueError, match="room for 1 tiles; this is for 3"):
        ours.head(x, EPS, w, ours.Tiles.empty(33, 70, device, SMALL), ours.Answer.empty(device))


@pytest.mark.parametrize(
    ("v", "k", "expected"),
    [(248320, 2048, HeadConfig(64, 128)), (8192, 320, HeadConfig(64, 128)),
     (1, 1, HeadConfig(16, 16))],
)  # fmt: skip
def test_the_cut_of_known_sizes(v, k, expected):
    assert HeadConfig.choose(v, k) == expected
