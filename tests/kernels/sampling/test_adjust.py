"""Bias, penalties and masks: the kernel's bits are the law's, and the law is transformers'."""

from __future__ import annotations

import pytest
import torch
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

from hybridspec.kernels.sampling import naive
from hybridspec.kernels.sampling.adjust import Adjustment, adjust, count
from hybridspec.kernels.sampling.config import SampleConfig
from hybridspec.kernels.sampling.naive import Penalties

V = 301
PENALTIES = [
    Penalties(),
    Penalties(repetition=1.3),
    Penalties(repetition=0.7, presence=-0.5),
    Penalties(frequency=0.31),
    Penalties(1.1, 1.5, 0.2),
]
BIAS = {7: -100.0, 40: 2.5, 300: 0.1}
PROMPT, ANSWER = torch.tensor([3, 3, 5, 299]), torch.tensor([5, 8, 8, 8, 300])
# an anchor that is counted already; drafts: new, seen, answered, one twice, at a chunk's edges
INPUTS = torch.tensor([300, 17, 3, 8, 17, 63, 64, 255, 256, 0, 299, 17, 5, 6, 7, 9])


def logits_of(rows, seed=0):
    logits = torch.randn(rows, V, generator=torch.Generator().manual_seed(seed)) * 3
    logits[:, 17], logits[:, 200] = -0.0, -torch.inf
    return logits


def allowed_of(rows):
    bits = torch.rand(rows, 320, generator=torch.Generator().manual_seed(9)) < 0.6
    return (bits.view(rows, 10, 32).long() << torch.arange(32)).sum(-1).int()


def adjustment(penalties, bias, device):
    made = Adjustment.empty(V, device)
    made.set(penalties, bias, PROMPT.to(device), ANSWER.to(device))
    return made


def run(logits, what, length, device, allowed=None, config=None, inputs=INPUTS):
    padded = torch.full((16, V + 5), torch.nan, device=device)
    padded[: len(logits), :V] = logits.to(device)
    scalar = torch.tensor(length, dtype=torch.int32, device=device)
    given = None if allowed is None else allowed.to(device)
    adjust(padded[:, :V], scalar, inputs.to(device), what, given, config)
    assert padded[:, V:].isnan().all()
    return padded[:, :V].cpu()


def law(logits, penalties, bias, allowed=None, inputs=INPUTS):
    dense = torch.zeros(V)
    for token, value in bias.items():
        dense[token] = value
    seen, answered = (torch.bincount(t, minlength=V) for t in (torch.cat([PROMPT, ANSWER]), ANSWER))
    return naive.adjust(logits, inputs, seen, answered, penalties, dense, allowed)


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("bias", [{}, BIAS], ids=["", "bias"])
@pytest.mark.parametrize("masked", [False, True], ids=["", "masked"])
def test_rows_have_the_law_s_bits(penalties, bias, masked, device):
    logits, allowed = logits_of(16), allowed_of(16) if masked else None
    what = adjustment(penalties, bias, device)
    exact = law(logits, penalties, bias, allowed)
    for config in (None, SampleConfig(64, 16)):
        assert torch.equal(run(logits, what, 16, device, allowed, config), exact)


def test_a_row_is_adjusted_alike_among_few_and_rows_beyond_are_left(device):
    logits, what = logits_of(16), adjustment(PENALTIES[-1], BIAS, device)
    garbage = INPUTS.clone()
    garbage[5:] = torch.iinfo(torch.int64).min
    few = run(logits, what, 5, device, inputs=garbage)
    assert torch.equal(few[:5], run(logits, what, 16, device)[:5])
    assert torch.equal(few[5:], logits[5:])


def test_a_draft_counts_for_later_rows_only(device):
    """Row i of a block is what plain decoding sees after the drafts 1..i were emitted."""
    penalties, logits = PENALTIES[-1], logits_of(16)
    block = run(logits, adjustment(penalties, BIAS, device), 16, device)
    what = adjustment(penalties, BIAS, device)
    for i in range(16):
        alone = run(logits[i : i + 1], what, 1, device, inputs=INPUTS.roll(-i))
        assert torch.equal(alone[0], block[i])
        following = INPUTS.roll(-i - 1).to(device)
        count(following, torch.tensor(1, dtype=torch.int32, device=device), what)


@pytest.mark.parametrize("kept", [0, 1, 9, 16])
def test_what_was_emitted_is_counted_once_each(kept, device):
    what = adjustment(Penalties(), {}, device)
    seen, answered = what.seen.clone(), what.answered.clone()
    tokens = INPUTS.clone()
    tokens[kept:] = 10**9
    count(tokens.to(device), torch.tensor(kept, dtype=torch.int32, device=device), what)
    more = torch.bincount(INPUTS[:kept], minlength=V).to(device)
    assert torch.equal(what.seen - seen, more.int())
    assert torch.equal(what.answered - answered, more.int())


def test_the_law_is_that_of_transformers():
    """Bias first, then repetition; presence and frequency by the formula of OpenAI's interface."""
    logits, penalties = logits_of(1), Penalties(1.3, 0.4, 0.2)
    ids = torch.cat([PROMPT, ANSWER])[None]
    biased = SequenceBiasLogitsProcessor({(t,): v for t, v in BIAS.items()})(ids, logits)
    expected = RepetitionPenaltyLogitsProcessor(1.3)(ids, biased)
    own = torch.bincount(ANSWER, minlength=V)
    expected = expected - own * 0.2 - (own > 0) * 0.4
    torch.testing.assert_close(law(logits, penalties, BIAS), expected)
