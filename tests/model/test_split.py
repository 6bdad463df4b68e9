"""The cut at the router boundary changes nothing: Stage 0 + Stage 1 is the unsplit verification."""

from __future__ import annotations

import pytest
import torch

from builders import PATTERN, random_target, target_config
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import TargetState, W

CONFIGS = {
    "gdn_first": target_config(layer_types=PATTERN),
    "attention_first": target_config(layer_types=PATTERN[::-1]),
    "one_layer": target_config(layer_types=PATTERN[:1]),
}
FORMS = tuple(VERIFY)
PAST = 21


@pytest.fixture(scope="module", params=CONFIGS)
def target(request):
    return random_target(CONFIGS[request.param])


def slot_after_prompt(target, form="block"):
    """PAST tokens, the last 8 of them from a round of the same verifier: a ring is in use."""
    taps = (0, target.config.num_hidden_layers - 1)
    slot = TargetState(target.config, 64, dtype=target.dtype).slot(0, taps)
    target.prefill(torch.arange(PAST - 8), slot)
    target.verify_unsplit(torch.arange(PAST - 8, PAST), slot, form)
    slot.commit(8, form)
    return slot


def block(w, seed=0):
    return torch.randint(0, 97, (w,), generator=torch.Generator().manual_seed(seed))


def retained(slot, form):
    """What a verification writes of its tokens into the GDN layers, tokens first."""
    layers = [slot.layer(i, form) for i in range(len(slot.checkpoint))]
    return [t for b in layers for t in (b.z, b.k, b.g, b.states) if t is not None]


def written(slot, w, form):
    """Everything that w verified inputs leave in a slot."""
    rows = slice(PAST, PAST + w)
    return [slot.gdn, slot.conv[:, : 3 + w], slot.keys[:, :, rows], slot.values[:, :, rows]] + [
        t[:w] for t in retained(slot, form)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", range(1, W + 1))
def test_the_split_has_the_bits_of_the_unsplit_pass(target, w, form):
    one, two = slot_after_prompt(target, form), slot_after_prompt(target, form)
    unsplit = target.verify_unsplit(block(w), one, form)
    split = target.stage1(target.stage0(block(w), two, form), w, two, form)
    assert torch.equal(unsplit.logits, split.logits)
    assert torch.equal(unsplit.features, split.features)
    for ours, theirs in zip(written(one, w, form), written(two, w, form), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("w", range(1, W + 1))
def test_stage_1_reads_nothing_of_the_tokens_it_leaves_out(target, w, form):
    """Stage 0 of 16 tokens, then the rows past w overwritten: the w results keep their bits."""
    results = []
    for spoil in (False, True):
        slot = slot_after_prompt(target, form)
        stage0 = target.stage0(block(W), slot, form)
        if spoil:
            stage0.experts[w:] = 0
            for rows in (stage0.residual, stage0.moe_input, stage0.weights):
                rows[w:] = torch.nan
            for rows in retained(slot, form):
                rows[w:] = torch.nan
            slot.conv[:, 3 + w :] = torch.nan
            slot.keys[:, :, PAST + w :] = torch.nan
            slot.values[:, :, PAST + w :] = torch.nan
        out = target.stage1(stage0, w, slot, form)
        slot.commit(w, form)
        committed = [slot.gdn, slot.conv[:, :3], slot.keys[:, :, : PAST + w]]
        results.append([out.logits, out.features, *committed])
    for clean, spoilt in zip(*results, strict=True):
        assert torch.equal(clean, spoilt)


@pytest.mark.parametrize("form", FORMS)
def test_a_longer_stage_0_gives_the_results_of_a_shorter_one(form):
    """w of 16 tokens against w alone, in float64: products of other row counts may round otherwise
    on a CPU, by 1e-15 each."""
    target = random_target(CONFIGS["gdn_first"], dtype=torch.float64)
    for w in range(1, W):
        long, short = slot_after_prompt(target, form), slot_after_prompt(target, form)
        ours = target.stage1(target.stage0(block(W), long, form), w, long, form)
        theirs = target.stage1(target.stage0(block(w), short, form), w, short, form)
        torch.testing.assert_close(ours.logits, theirs.logits, rtol=0, atol=1e-11)
        torch.testing.assert_close(ours.features, theirs.features, rtol=0, atol=1e-11)


def test_stage_0_runs_no_expert(monkeypatch):
    """It ends at the router; the experts are the first thing Stage 1 runs."""
    target = random_target(CONFIGS["gdn_first"])
    slot, calls = slot_after_prompt(target), []
    for i, layer in enumerate(target.layers):

        def combine(*args, _i=i, _original=layer.mlp.combine):
            calls.append(_i)
            return _original(*args)

        monkeypatch.setattr(layer.mlp, "combine", combine)
    stage0 = target.stage0(block(5), slot, "block")
    assert calls == []
    assert stage0.experts.shape == (5, target.config.num_experts_per_tok)
    target.stage1(stage0, 3, slot, "block")
    assert calls == [0, 1, 2, 3]


@pytest.mark.parametrize("form", FORMS)
def test_verification_leaves_the_committed_state(target, form):
    slot = slot_after_prompt(target, form)
    before = [slot.gdn.clone(), slot.conv[:, :3].clone(), slot.keys[:, :, :PAST].clone()]
    target.stage1(target.stage0(block(W), slot, form), W, slot, form)
    after = [slot.gdn, slot.conv[:, :3], slot.keys[:, :, :PAST]]
    assert slot.length == PAST
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
