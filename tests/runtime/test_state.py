"""The memory of a run: shapes as promised, commits in all layers at once, bytes by formula."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from builders import PATTERN, drafter_config, random_target, target_config
from hybridspec.model.gdn import VERIFY
from hybridspec.runtime.state import DrafterState, TargetState, W
from scripted import TINY

CONFIG = target_config(linear_num_key_heads=1, linear_key_head_dim=12, layer_types=PATTERN * 2)


def noise(state, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in state.tensors().items():
        tensor.copy_(torch.randn(tensor.shape, generator=generator))
        if name in ("g", "ring g"):
            tensor.neg_().clamp_max_(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_shapes_and_dtypes(dtype):
    """GDN states and factors stay in float32 for a narrower model; caches take the model's type."""
    shapes = {
        n: t.shape for n, t in TargetState(CONFIG, 100, slots=3, dtype=dtype).tensors().items()
    }
    assert shapes == {
        "gdn": (6, 3, 4, 16, 12),
        "conv": (6, 3, 3 + 16, 2 * 12 + 4 * 16),
        "keys": (2, 3, 2, 100 + 16, 32),
        "values": (2, 3, 2, 100 + 16, 32),
        "z": (6, 3, 16, 4, 16),
        "k": (6, 3, 16, 1, 12),
        "g": (6, 3, 16, 4),
    }
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    for name, tensor in TargetState(CONFIG, 100, dtype=dtype).tensors().items():
        assert tensor.dtype == (dtype if name in ("conv", "keys", "values") else wide)
        assert tensor.is_contiguous()


def test_a_state_counts_its_bytes():
    """GDN states, columns, caches and the factors of W tokens: z, k and g a head."""
    floats = 6 * (4 * 16 * 12 + 19 * 88 + 16 * (4 * 16 + 12 + 4)) + 2 * 2 * 2 * 116 * 32
    assert TargetState(CONFIG, 100).nbytes == 4 * floats
    assert TargetState(CONFIG, 100, slots=3).nbytes == 3 * 4 * floats


@pytest.mark.parametrize("verifier", VERIFY)
@pytest.mark.parametrize("m", range(1, W + 1))
def test_a_commit_moves_every_layer_by_m(m, verifier):
    """Against the recurrence from the factors, layer by layer and token by token, in float64.

    `per-token` has no factors but the state itself.
    """
    state = TargetState(CONFIG, 50, dtype=torch.float64)
    slot = state.slot()
    slot.layer(0, verifier)  # allocates what this verifier needs
    noise(state)
    gdn, conv = slot.gdn.clone(), slot.conv.clone()
    layers = [slot.layer(i, verifier) for i in range(6)]
    z, k, g = (torch.stack([getattr(b, name) for b in layers]) for name in "zkg")
    slot.length = 7
    slot.commit(m, verifier)
    assert slot.length == 7 + m
    assert torch.equal(slot.conv[:, :3], conv[:, m : m + 3])
    for t in range(m):
        key = k[:, t, torch.zeros(4, dtype=torch.long)]  # four value heads share one key head
        gdn = gdn * g[:, t].exp()[..., None, None] + z[:, t, :, :, None] * key[:, :, None]
    if verifier == "per-token":
        gdn = state.tensors()["states"][:, 0, m - 1]
    torch.testing.assert_close(slot.gdn, gdn, rtol=1e-12, atol=1e-12)  # 16 float64 roundings


@pytest.mark.parametrize("verifier", VERIFY)
def test_slots_do_not_see_each_other(verifier):
    """Two sequences in one memory, each verifying before the other commits, as each alone."""
    target = random_target(TINY, dtype=torch.float64)
    texts = torch.randint(0, 500, (2, 40), generator=torch.Generator().manual_seed(0))

    def verify(slot, ids):
        target.stage1(target.stage0(ids, slot, verifier), 4, slot, verifier)

    shared = TargetState(TINY, 60, slots=2, dtype=torch.float64)
    pair = [shared.slot(i) for i in (0, 1)]
    alone = [TargetState(TINY, 60, dtype=torch.float64).slot() for _ in texts]
    for slots in (pair, alone):
        for start in (0, 4, 8):
            for slot, text in zip(slots, texts, strict=True):
                verify(slot, text[start : start + 4])
            for slot in slots:
                slot.commit(3, verifier)
    for ours, theirs in zip(pair, alone, strict=True):
        assert torch.equal(ours.gdn, theirs.gdn)
        assert torch.equal(ours.conv[:, :3], theirs.conv[:, :3])
        assert torch.equal(ours.keys[:, :, :9], theirs.keys[:, :, :9])


def test_a_new_handle_forgets_the_sequence():
    """Whatever is left in the buffers, a fresh slot answers as in fresh memory."""
    target, ids = random_target(TINY), torch.arange(20)
    clean, used = TargetState(TINY, 40), TargetState(TINY, 40)
    noise(used)
    used.keys.fill_(torch.nan)
    used.values.fill_(torch.nan)
    first, second = (target.prefill(ids, state.slot()).logits for state in (clean, used))
    assert torch.equal(first, second)


WINDOWED = drafter_config(
    CONFIG,
    layer_types=("sliding_attention",) * 4 + ("full_attention",),
    sliding_window=4096,
    num_key_value_heads=3,
    head_dim=8,
)


@pytest.mark.parametrize("capacity", [100, 4095, 4096, 5000, 131072])
def test_the_drafters_bytes(capacity):
    """Keys and values of window + block rows a sliding layer, of all positions a full one."""
    row = 2 * 3 * 8 * 2  # keys and values, 3 heads of 8, in 2 bytes
    expected = row * (4 * (min(4096, capacity) + 16) + (capacity + 16))
    assert DrafterState(WINDOWED, capacity, dtype=torch.bfloat16).nbytes == expected


def test_a_drafter_of_sliding_layers_does_not_grow_with_the_context():
    config = dataclasses.replace(WINDOWED, layer_types=("sliding_attention",) * 5)
    sizes = {DrafterState(config, capacity).nbytes for capacity in (8192, 131072, 262144)}
    assert len(sizes) == 1
