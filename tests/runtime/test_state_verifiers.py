"""What `per-token` and `replay` keep beside the common state: when it is made, and who sees it."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from builders import PATTERN, random_target, target_config
from committed import EXACT
from hybridspec.core import SamplingParams
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.check import distances
from hybridspec.runtime.state import RING, TargetState, W
from scripted import TINY, prompt_ids, run, scripted_engine

TARGET = random_target(TINY, dtype=torch.float64)
TEXT = torch.tensor(prompt_ids(400, seed=7))
STATES = 2 * W * 4 * 12 * 8 * 8  # GDN layers, tokens, heads, dv, dk, bytes of float64
ROWS = 2 * RING * (4 * 12 + 2 * 8 + 4) * 8  # z, k and g of both layers


def new_state():
    return TargetState(TINY, len(TEXT), dtype=torch.float64)


def round_of(slot, form, w, m):
    """Verify the next w tokens of TEXT, of which all after m are wrong, and keep m."""
    ids = TEXT[slot.length : slot.length + w].clone()
    ids[m:] = ids[m:].add(1) % TINY.vocab_size
    out = TARGET.stage1(TARGET.stage0(ids, slot, form), w, slot, form)
    slot.commit(m, form)
    return out.logits[:m]


def plain(tokens):
    """The slot after one token at a time."""
    slot = new_state().slot()
    for _ in range(tokens):
        round_of(slot, "exact", 1, 1)
    return slot


def assert_equal_to(slot, other):
    assert slot.length == other.length
    for name, distance in distances(slot, other).items():
        assert distance < EXACT, name


@pytest.mark.parametrize(
    ("form", "added"), [("exact", 0), ("block", 0), ("per-token", STATES), ("replay", ROWS)]
)
def test_memory_is_allocated_at_the_first_use_and_once(form, added):
    state = new_state()
    common, before = state.nbytes, dict(state.tensors())
    for _ in range(2):
        slot = state.slot()
        TARGET.prefill(TEXT[:5], slot)
        round_of(slot, form, 4, 2)
        assert state.nbytes == common + added
        before |= {n: t for n, t in state.tensors().items() if n not in before}
        assert all(state.tensors()[n] is t for n, t in before.items())


def test_the_bytes_of_the_35b_model():
    """The states of 16 tokens in 30 layers are 1.0 GB, the ring 24 MB: no device is touched."""
    config = target_config(
        layer_types=PATTERN * 10,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
    )
    state = TargetState(config, 8, device="meta", dtype=torch.bfloat16)
    slot, sizes = state.slot(), [state.nbytes]
    for form in ("per-token", "replay"):
        slot.layer(0, form)
        sizes.append(state.nbytes)
    states, ring = (b - a for a, b in itertools.pairwise(sizes))
    assert states == 30 * 16 * 32 * 128 * 128 * 4
    assert ring == 30 * 32 * (32 * 128 + 16 * 128 + 32) * 4


@pytest.mark.parametrize("form", ["per-token", "replay"])
def test_memory_made_in_inference_mode_serves_outside_of_it(form):
    slot = new_state().slot()
    with torch.inference_mode():
        round_of(slot, form, 9, 7)
    round_of(slot, form, 9, 6)
    assert_equal_to(slot, plain(13))


def test_an_engine_allocates_for_the_systems_that_run():
    engine = scripted_engine()
    common = engine.nbytes
    for system in ("ar", "static:16", "static:4:block"):
        run(engine, prompt_ids(), system, SamplingParams(max_tokens=9))
        assert engine.nbytes == common
    run(engine, prompt_ids(), "static:4:per-token", SamplingParams(max_tokens=9))
    assert engine.nbytes == common + STATES // 2


def test_the_ring_is_folded_when_fewer_than_w_rows_are_free():
    slot, seen = new_state().slot(), []
    for m in (1, 10, 5, 1, 16, 16, 9, 7, 8):
        kept = slot.checkpoint.clone()
        round_of(slot, "replay", W, m)
        folded = not torch.equal(slot.checkpoint, kept)
        assert folded == (slot.pending == 0)
        seen.append(slot.pending)
        assert RING - slot.pending >= W
    assert seen == [1, 11, 16, 0, 16, 0, 9, 16, 0]


@pytest.mark.parametrize("form", VERIFY)
@pytest.mark.parametrize("seed", range(3))
def test_many_random_rounds_hold_the_states_of_plain_decoding(form, seed):
    """After every round, so that rings of all fillings and the flushes between are seen."""
    draw, slot, single = random.Random(seed), new_state().slot(), new_state().slot()
    while slot.length < 150:
        w = draw.randint(1, W)
        ours = round_of(slot, form, w, m := draw.randint(1, w))
        theirs = torch.cat([round_of(single, "exact", 1, 1) for _ in range(m)])
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)  # logits of size 1
        assert_equal_to(slot, single)


@pytest.mark.parametrize("form", VERIFY)
@pytest.mark.parametrize("w", range(1, W + 1))
def test_two_rounds_that_keep_all_and_half_in_both_orders(form, w):
    half = (w + 1) // 2
    for kept in ((w, half), (half, w)):
        slot = new_state().slot()
        TARGET.prefill(TEXT[:9], slot)
        for m in kept:
            round_of(slot, form, w, m)
        assert_equal_to(slot, plain(9 + w + half))


@pytest.mark.parametrize("after", ["prefill", *VERIFY])
def test_whoever_comes_after_replay_finds_the_committed_state(after):
    """A prefill or another verifier goes on from a ring in use."""
    slot = new_state().slot()
    round_of(slot, "replay", 9, 7)
    assert slot.pending == 7
    if after == "prefill":
        TARGET.prefill(TEXT[7:12], slot)
    else:
        round_of(slot, after, 5, 5)
    assert slot.pending == (12 if after == "replay" else 0)
    assert_equal_to(slot, plain(12))


def test_reading_the_state_moves_nothing():
    """Not even between a verification and its commit."""
    slot = new_state().slot()
    round_of(slot, "replay", 9, 7)
    TARGET.verify_unsplit(TEXT[7:12], slot, "replay")
    checkpoint = slot.checkpoint.clone()
    torch.testing.assert_close(slot.gdn, plain(7).gdn, rtol=0, atol=1e-12)  # sums of size 1
    assert torch.equal(slot.checkpoint, checkpoint)
    slot.commit(5, "replay")
    assert slot.pending == 12
    assert_equal_to(slot, plain(12))


def test_a_new_sequence_starts_with_an_empty_ring():
    state = new_state()
    old = state.slot()
    round_of(old, "replay", 9, 7)
    new = state.slot()
    assert new.pending == 0
    round_of(new, "replay", 9, 8)
    assert_equal_to(new, plain(8))
    new.reset()
    assert new.pending == 0
    assert not new.gdn.any()


@pytest.mark.parametrize("form", VERIFY)
def test_a_model_without_gdn_layers_decodes_too(form):
    config = target_config(layer_types=("full_attention",) * 2)
    target = random_target(config)
    slot = TargetState(config, 64).slot()
    for _ in range(3):
        target.verify_unsplit(torch.arange(9), slot, form)
        slot.commit(7, form)
    assert slot.length == 21
