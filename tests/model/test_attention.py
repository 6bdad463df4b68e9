"""Attention: the two ways to compute it agree, and a query sees its own past alone."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from builders import random_target, target_config
from hybridspec.model.attention import FEW, attend, attend_each, attend_last, causal, flashes
from hybridspec.runtime.state import TargetState


def softmax_attention(q, k, v, visible):
    """One head and query at a time."""
    tokens, heads, size = q.shape
    shared = heads // k.shape[0]
    out = torch.zeros_like(q)
    for t in range(tokens):
        for h in range(heads):
            keys, values = k[h // shared], v[h // shared]
            seen = torch.ones(len(keys), dtype=torch.bool) if visible is None else visible[t]
            out[t, h] = (keys[seen] @ q[t, h] / size**0.5).softmax(-1) @ values[seen]
    return out.flatten(1)


@pytest.mark.parametrize("heads", [(4, 4), (4, 2), (8, 1)], ids=str)
@pytest.mark.parametrize("tokens", [1, 2, 16, FEW, FEW + 1, 40])
@pytest.mark.parametrize("past", [0, 1, 30])
def test_attend(tokens, past, heads):
    generator = torch.Generator().manual_seed(tokens)
    q = torch.randn(tokens, heads[0], 12, generator=generator, dtype=torch.float64)
    shape = (2, heads[1], past + tokens, 12)
    k, v = torch.randn(shape, generator=generator, dtype=torch.float64)
    for last in (None, causal(tokens, torch.device("cpu"))):
        whole = last if last is None else F.pad(last, (past, 0), value=True)
        ours, expected = attend(q, k, v, last), softmax_attention(q, k, v, whole)
        torch.testing.assert_close(ours, expected, rtol=0, atol=1e-13)  # float64 sums, two orders


@pytest.mark.parametrize("tokens", [1, 3, 16])
def test_causal(tokens):
    rows = causal(tokens, torch.device("cpu"))
    assert rows.tolist() == [[j <= i for j in range(tokens)] for i in range(tokens)]


@pytest.mark.parametrize("past", [0, 5, 100, 383, 700])
def test_one_token_at_a_time(past):
    """The same sums as together; and a token's bits do not depend on those beside it."""
    generator = torch.Generator().manual_seed(past)
    q = torch.randn(16, 4, 24, generator=generator)
    k, v = torch.randn(2, 2, past + 16, 24, generator=generator)
    each = attend_each(q, k, v, past)
    together = attend(q, k, v, causal(16, torch.device("cpu")))
    torch.testing.assert_close(each, together, rtol=0, atol=1e-5)  # float32 sums, two orders
    for t in range(16):
        assert torch.equal(attend_each(q[t : t + 1], k, v, past + t)[0], each[t])


@pytest.mark.parametrize("tokens", [8, FEW + 8])
def test_rows_past_the_queries_are_not_read(tokens):
    """The cache has spare rows behind; whatever they hold, results stay. Own rows are written."""
    target = random_target(target_config(layer_types=("full_attention",)))
    ids = torch.arange(5 + tokens)
    outputs = []
    for junk in (0.0, torch.nan):
        slot = TargetState(target.config, 64).slot()
        slot.keys.fill_(junk)
        slot.values.fill_(junk)
        target.prefill(ids[:5], slot)
        outputs.append(target.prefill(ids[5:], slot).logits)
        assert slot.keys[:, :, : 5 + tokens].isfinite().all()
        assert slot.keys[:, :, 5 + tokens :].isfinite().all() == (junk == 0.0)
    assert torch.equal(*outputs)


@pytest.mark.parametrize("past", [0, 1, 30])
@pytest.mark.parametrize("tokens", [FEW + 1, 40])
def test_the_last_tokens_see_what_a_mask_shows(tokens, past):
    """A GPU's call for prompts, by torch's plain path."""
    generator = torch.Generator().manual_seed(tokens)
    q = torch.randn(tokens, 4, 16, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 2, past + tokens, 16, generator=generator, dtype=torch.float64)
    expected = attend(q, k, v, causal(tokens, torch.device("cpu")))
    with torch.inference_mode():
        ours = attend_last(q, k, v)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-13)
    assert not flashes(q, k, v)  # for a GPU alone
