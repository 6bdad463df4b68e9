"""One draft call of ours against dflash 0.1.0 (its loop is no oracle for hybrids)."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from builders import drafter_config, random_drafter, random_target, target_config
from hybridspec.runtime.state import DrafterState, TargetState

TARGET = target_config()
DRAFTERS = {
    "current": drafter_config(TARGET),
    "old": drafter_config(
        TARGET, layer_types=("full_attention",) * 4, sliding_window=None, target_layer_ids=(1, 5)
    ),
    "window_never_binds": drafter_config(TARGET, sliding_window=4096, block_size=8),
    "causal_everywhere": drafter_config(TARGET, is_causal=True),
    "bidirectional_everywhere": drafter_config(TARGET, is_causal=False, sliding_window=64),
}


def dflash_module(drafter):
    """dflash's model with the same weights."""
    dflash = pytest.importorskip("dflash.model", reason="needs dflash 0.1.0 (make install-dev)")
    from transformers import Qwen3Config

    config = dataclasses.asdict(drafter.config)
    taps = {k: config.pop(k) for k in ("block_size", "mask_token_id", "target_layer_ids")}
    is_causal, layers = config.pop("is_causal"), config.pop("num_target_layers")
    config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
    config["layer_types"] = list(config["layer_types"])
    hf_config = Qwen3Config(
        **config,
        num_hidden_layers=drafter.config.num_hidden_layers,
        use_sliding_window=drafter.config.sliding_window is not None,
        max_window_layers=drafter.config.num_hidden_layers,
        attn_implementation="eager",
    )
    hf_config.dflash_config = taps | {"target_layer_ids": list(taps["target_layer_ids"])}
    hf_config.num_target_layers = layers
    if is_causal is not None:
        hf_config.is_causal = is_causal
    model = dflash.DFlashDraftModel(hf_config).eval().to(drafter.dtype)
    model.load_state_dict(drafter.slots())
    return model


@pytest.mark.parametrize("context", [1, 9, 30, 70])
@pytest.mark.parametrize("name", DRAFTERS)
def test_one_draft_call(name, context):
    config = DRAFTERS[name]
    target = random_target(TARGET)
    drafter = random_drafter(config)
    generator = torch.Generator().manual_seed(context)
    ids = torch.randint(0, 90, (context,), generator=generator)
    features = target.prefill(
        ids, TargetState(TARGET, 128).slot(0, config.target_layer_ids)
    ).features

    block = torch.full((1, config.block_size), config.mask_token_id)
    block[0, 0] = 5
    theirs = dflash_module(drafter)(
        position_ids=torch.arange(context + config.block_size)[None],
        noise_embedding=target.embedding[block],
        target_hidden=features[None],
    )[0]

    slot = DrafterState(config, 128).slot()
    for part in features.split(7):  # rings wrap in several steps
        drafter.extend(part, slot)
    rows = drafter._block(target, 5, slot, drafter.config.block_size)
    ours = torch.nn.functional.rms_norm(rows, rows.shape[-1:], drafter.norm, 1e-6)
    # float32 on both sides, another order of sums: a few roundings of values near 1
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)

    proposal = drafter.propose(target, 5, slot, 3, scored=True)
    logits = theirs[1:4] @ target.head.T
    assert proposal.tokens.tolist() == logits.argmax(-1).tolist()
    probabilities = logits.softmax(-1)
    torch.testing.assert_close(proposal.confidence, probabilities.max(-1).values)
    entropy = torch.distributions.Categorical(probabilities).entropy()
    torch.testing.assert_close(proposal.entropy, entropy)
