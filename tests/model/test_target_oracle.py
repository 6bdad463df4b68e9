"""Our target against transformers' Qwen3_5MoeForCausalLM on random configs of the family.

Tolerance: ours runs in float64, theirs keeps rotary angles, routing and the delta rule in float32.
Their chunked and step-by-step forms differ by 6e-5 on these inputs and ours from either by 2e-4 at
most; a wrong layout, norm or position moves logits by more than 0.1.
"""

from __future__ import annotations

import pytest
import torch

from builders import PATTERN, hf_target, random_target, target_config
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import TargetState

LINEAR, FULL = "linear_attention", "full_attention"
CONFIGS = {
    "base": target_config(),
    "tied": target_config(tie_word_embeddings=True),
    "ratio1": target_config(linear_num_value_heads=2, num_key_value_heads=4),
    "ratio4": target_config(linear_num_key_heads=1, num_key_value_heads=1, num_experts=6),
    "odd_sizes": target_config(
        linear_key_head_dim=12, linear_value_head_dim=20, head_dim=40, hidden_size=56, vocab_size=61
    ),
    "top1_of_32": target_config(num_experts=32, num_experts_per_tok=1, moe_intermediate_size=8),
    "pattern": target_config(layer_types=(LINEAR, FULL, FULL, LINEAR, LINEAR)),
    "full_first": target_config(layer_types=(FULL, *PATTERN)),
    "wide_rotation": target_config(partial_rotary_factor=1.0, rope_theta=1e4),
}
CLOSE = {"atol": 5e-4, "rtol": 0.0}


@pytest.fixture(scope="module", params=CONFIGS)
def pair(request):
    with torch.no_grad():
        target = random_target(CONFIGS[request.param], dtype=torch.float64)
        return target, hf_target(target)


def new_slot(target):
    return TargetState(target.config, 128, dtype=target.dtype).slot()


def tokens(target, count):
    generator = torch.Generator().manual_seed(count)
    return torch.randint(0, target.config.vocab_size, (count,), generator=generator)


def test_prefill_in_chunks(pair):
    target, hf = pair
    ids = tokens(target, 70)
    expected = hf(ids[None]).logits[0]
    slot = new_slot(target)
    for start, stop in ((0, 1), (1, 33), (33, 70)):
        logits = target.prefill(ids[start:stop], slot).logits
        torch.testing.assert_close(logits[0], expected[stop - 1].double(), **CLOSE)


@pytest.mark.parametrize("verifier", VERIFY)
def test_token_by_token(pair, verifier):
    target, hf = pair
    ids = tokens(target, 24)
    expected = hf(ids[None]).logits[0]
    slot = new_slot(target)
    for i in range(24):
        stage0 = target.stage0(ids[i : i + 1], slot, verifier)
        logits = target.stage1(stage0, 1, slot, verifier).logits
        slot.commit(1, verifier)
        torch.testing.assert_close(logits[0], expected[i].double(), **CLOSE)


@pytest.fixture(scope="module")
def commits(pair):
    """Prompt, block, four tokens more, and the logits of all for each number of tokens kept."""
    target, hf = pair
    prompt, block, more = (tokens(target, count) for count in (19, 16, 4))
    with torch.no_grad():
        kept = [torch.cat((prompt, block[:m], more)) for m in range(1, 17)]
        return prompt, block, more, [hf(ids[None]).logits[0].double() for ids in kept]


@pytest.mark.parametrize("verifier", VERIFY)
def test_every_partial_commit(pair, commits, verifier):
    """Verify 16, commit m, verify 4 more: for every m in 1..16, as one run over the kept tokens."""
    target, _ = pair
    prompt, block, more, expected = commits
    for m, logits in enumerate(expected, 1):
        slot = new_slot(target)
        target.prefill(prompt, slot)
        first = target.stage1(target.stage0(block, slot, verifier), 16, slot, verifier).logits
        slot.commit(m, verifier)
        second = target.stage1(target.stage0(more, slot, verifier), 4, slot, verifier).logits
        torch.testing.assert_close(first[:m], logits[19 : 19 + m], **CLOSE)
        torch.testing.assert_close(second, logits[19 + m :], **CLOSE)
