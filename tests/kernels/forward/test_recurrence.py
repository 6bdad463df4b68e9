"""A slot's GDN layers by every verifier, over rounds: those that keep other things than `exact`
have its bits, and what they leave is what the rest of the runtime reads."""

from __future__ import annotations

import pytest
import torch

from builders import fill, target_config
from hybridspec.kernels.forward.gdn import blocks, recurrence
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot, TargetState

# w and m of rounds: in `replay` the second makes 17 tokens pending, one more than may stay
ROUNDS = [(11, 11), (7, 6), (2, 1)]
# heads of 16 are served by Triton everywhere, those of 32 by CUDA C++ on a GPU
CONFIGS = {
    size: target_config(
        layer_types=("linear_attention",) * 2, linear_num_key_heads=1, linear_num_value_heads=2,
        linear_key_head_dim=size, linear_value_head_dim=size,
    )
    for size in (16, 32)
}  # fmt: skip
NEAR = 1e-5  # `block` and a fold on the host: the same sums in float32 in another order


class Side:
    """One verifier over a slot of its own, which lies between others."""

    def __init__(self, verifier: str, device: torch.device, size: int = 16) -> None:
        self.config = CONFIGS[size]
        target = Target(self.config, device, torch.float32)
        fill(target, 3)
        self.gates = [layer.gates for layer in TargetWeights.of(target).layers]
        self.state = TargetState(
            self.config, 8, slots=3, device=device, dtype=torch.float32, joint=True
        )
        self.verifier, self.slot = verifier, self.state.slot(1)
        self.run = recurrence(self.config, self.slot, verifier, early=False)
        self.start(self.slot)

    def start(self, slot: TargetSlot) -> None:
        """Some state and history, as a prompt leaves them."""
        g = torch.Generator().manual_seed(0)
        for part in (slot.checkpoint, slot.conv[:, :3]):
            part.copy_(torch.randn(part.shape, generator=g) / 4)
        self.slot = slot

    def verify(self, w: int, seed: int) -> list[torch.Tensor]:
        """What both layers leave in rows 0..w-1, of columns drawn with a seed."""
        g, (_, heads, dv, _) = torch.Generator().manual_seed(seed), self.slot.checkpoint.shape
        device, found = self.slot.conv.device, []
        self.run.begin(self.slot)
        parts = blocks(self.config, device.type, torch.float32)
        for place, gates in enumerate(self.gates):
            joint = self.run.joint[place]
            joint[:w] = torch.randn(w, joint.shape[1], generator=g).to(device)
            gated = torch.zeros(16, heads, dv, device=device)
            squares = torch.zeros(16, heads, parts, device=device)
            self.run.verify(place, gates, gated, squares, scalar(w, device))
            found += [gated[:w], squares[:w].sum(-1)]
        return found

    def commit(self, m: int) -> None:
        self.run.commit(scalar(m, self.slot.conv.device))
        self.run.committed(self.slot, m)
        self.slot.length += m


def scalar(value: int, device: torch.device) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.int32, device=device)


def near(a: torch.Tensor, b: torch.Tensor) -> bool:
    return float((a - b).double().norm() / b.double().norm()) < NEAR


@pytest.fixture(params=["per-token", "replay", "block"])
def sides(request, device, size) -> tuple[Side, Side]:
    return Side(request.param, device, size), Side("exact", device, size)


@pytest.fixture(params=CONFIGS)
def size(request, device) -> int:
    if request.param == 32 and device.type != "cuda":
        pytest.skip("interpreted, heads of 32 show nothing that those of 16 do not")
    return request.param


def test_rounds_are_those_of_exact(sides):
    ours, exact = sides
    for i, (w, m) in enumerate(ROUNDS):
        found, expected = ours.verify(w, i), exact.verify(w, i)
        same = near if ours.verifier == "block" else torch.equal
        assert all(map(same, found, expected))
        assert near(ours.slot.gdn, exact.slot.gdn)  # before the commit, and
        ours.commit(m)
        exact.commit(m)
        assert near(ours.slot.gdn, exact.slot.gdn)  # behind it
        assert torch.equal(ours.slot.conv[:, :3], exact.slot.conv[:, :3])
    pending = {"replay": 1}.get(ours.verifier, 0)
    assert ours.slot.pending == pending
    ours.slot.fold()
    assert near(ours.slot.checkpoint, exact.slot.checkpoint)
    for part in (*ours.state.tensors().values(), ours.state.alpha):
        assert not part[:, 0].any()  # the slots beside it were left alone
        assert not part[:, 2].any()


def test_the_commit_of_a_fold_has_the_bits_of_exact(device, size):
    """On the device factors are added one by one, as `exact` adds them."""
    ours, exact = Side("replay", device, size), Side("exact", device, size)
    for i, (w, m) in enumerate(ROUNDS[:2]):
        for side in (ours, exact):
            side.verify(w, i)
            side.commit(m)
    assert (ours.slot.pending, int(ours.run.pending)) == (0, 0)
    assert torch.equal(ours.slot.checkpoint, exact.slot.checkpoint)


def test_a_new_handle_begins_with_nothing_pending(device):
    """The launches are of the memory, and a later request comes with a slot of its own."""
    ours, found = Side("replay", device), []
    for _ in range(2):
        ours.start(ours.state.slot(1))
        for i in range(2):
            found.append(torch.cat(ours.verify(3, i)[::2]))
            ours.commit(3)
        assert ours.slot.pending == 6
    assert torch.equal(torch.cat(found[:2]), torch.cat(found[2:]))


def test_what_another_left_pending_is_folded_first(device):
    """The ring of the kernels has alpha; a pass of the model leaves g alone."""
    ours = Side("replay", device)
    ours.verify(4, 0)
    ours.commit(4)
    held = ours.slot.gdn.clone()
    ours.slot.fold()
    assert near(ours.slot.checkpoint, held)
    ring = ours.slot.memory.ring()
    for part in ring:
        part[:, 1, :2] = 0.25
    ours.slot.pending = 2
    expected = ours.slot.gdn.clone()
    ours.run.begin(ours.slot)
    assert (ours.slot.pending, int(ours.run.pending)) == (0, 0)
    assert near(ours.slot.checkpoint, expected)


def test_decays_that_vanish_leave_a_state_that_can_be_read(device):
    ours = Side("replay", device)
    ours.verify(3, 0)
    ours.run.ring.alpha[:, 1] = 0.0
    ours.commit(3)
    assert ours.slot.gdn.isfinite().all()
