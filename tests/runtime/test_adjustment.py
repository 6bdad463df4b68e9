"""Bias, penalties and masks of all rows at once, against the law, which takes a row at a time."""

from __future__ import annotations

import pytest
import torch

from hybridspec.core import SamplingParams
from hybridspec.kernels.sampling import naive
from hybridspec.runtime.adjust import Adjustment, masked

V, CPU = 301, torch.device("cpu")
PROMPT, ANSWER = [3, 3, 5, 299], [5, 8, 8, 8, 300]
# new ones, seen ones, answered ones, one of them three times
DRAFTS = torch.tensor([17, 3, 8, 17, 63, 64, 255, 299, 0, 17, 5, 6, 7, 9, 300])
BIAS = ((7, -100.0), (17, 2.5), (300, 0.1))
ASKED = {
    "repetition": {"repetition_penalty": 1.3},
    "presence and a reward": {"repetition_penalty": 0.7, "presence_penalty": -0.5},
    "frequency": {"frequency_penalty": 0.31},
    "bias": {"logit_bias": BIAS},
    "all": {"repetition_penalty": 1.1, "presence_penalty": 1.5, "frequency_penalty": 0.2,
            "logit_bias": BIAS},
}  # fmt: skip


def logits_of(rows: int, dtype=torch.float32) -> torch.Tensor:
    logits = 3 * torch.randn(rows, V, generator=torch.Generator().manual_seed(rows))
    logits[:, 17], logits[:, 200] = -0.0, -torch.inf
    return logits.to(dtype)


def adjustment(params: SamplingParams) -> Adjustment:
    made = Adjustment.of(params, PROMPT, V, CPU)
    made.keep(ANSWER[:2])
    made.keep(ANSWER[2:])
    return made


def law(logits, params, drafts):
    answered = torch.bincount(torch.tensor(ANSWER), minlength=V)
    seen = answered + torch.bincount(torch.tensor(PROMPT), minlength=V)
    bias = torch.zeros(V)
    for token, value in params.logit_bias:
        bias[token] = value
    penalties = naive.Penalties(
        params.repetition_penalty, params.presence_penalty, params.frequency_penalty
    )
    inputs = torch.cat((torch.tensor([ANSWER[-1]]), drafts))
    return naive.adjust(logits, inputs, seen, answered, penalties, bias)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("w", [1, 2, 5, 16])
def test_rows_have_the_bits_of_the_law(name, w):
    params, logits = SamplingParams(**ASKED[name]), logits_of(w)
    before = logits.clone()
    drafts = DRAFTS[: w - 1] if w > 1 else None
    rows = adjustment(params).rows(logits, drafts)
    assert torch.equal(rows, law(logits, params, DRAFTS[: w - 1]))
    assert torch.equal(logits, before)  # log-probabilities are read from them afterwards


def test_double_rows_are_not_rounded_to_single():
    params, logits = SamplingParams(**ASKED["frequency"]), logits_of(1, torch.float64)
    rows = adjustment(params).rows(logits, None)
    assert float(rows[0, 8]) == float(logits[0, 8]) - 0.31 * 3


def test_the_prompt_counts_for_the_repetition_penalty_alone():
    logits = torch.ones(1, V)
    for asked, token in (("presence_penalty", 0.0), ("frequency_penalty", 0.0),
                         ("repetition_penalty", 0.5)):  # fmt: skip
        made = Adjustment.of(SamplingParams(**{asked: 2.0}), PROMPT, V, CPU)
        assert float(made.rows(logits, None)[0, 3]) == 1.0 - token


def test_nothing_asked_is_nothing_made():
    assert Adjustment.of(SamplingParams(temperature=1.0, top_p=0.9), PROMPT, V, CPU) is None


def test_masked_tokens_cannot_come():
    """Words as a grammar's library packs them, the last one with bits beyond the vocabulary."""
    allowed = torch.rand(3, 320, generator=torch.Generator().manual_seed(9)) < 0.5
    words = (allowed.view(3, 10, 32).long() << torch.arange(32)).sum(-1).int()
    logits = logits_of(3)
    rows = masked(logits, words)
    assert torch.equal(rows, torch.where(allowed[:, :V], logits, -torch.inf))
