"""A drafter's passes of kernels against the model in float64: proposals, scores, caches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from builders import drafter_config, fill, target_config
from hybridspec.core import Proposal
from hybridspec.model.config import DrafterConfig
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.launched_drafter import FEW, LaunchedDrafter
from hybridspec.runtime.state import DrafterSlot, DrafterState

# fp32 on both sides of a rounding: sums of some hundred products in another order, three layers
TOLERANCE = 2e-5
CAPACITY = 256
TARGET = target_config(layer_types=("linear_attention",) * 4)
MIXED = drafter_config(
    TARGET, target_layer_ids=(0, 2), layer_types=("sliding_attention", "full_attention")
)
FORMS = {
    "sliding causal, full not": MIXED,
    "causal": replace(MIXED, is_causal=True),
    "never causal": replace(MIXED, is_causal=False),
    "full": replace(MIXED, layer_types=("full_attention",), sliding_window=None),
    "sliding": replace(MIXED, layer_types=("sliding_attention",) * 2),
}
NAN = float("nan")


class Twins:
    """The law in float64 and the kernels in fp32, of equal weights, each with its own memory."""

    def __init__(self, config: DrafterConfig, device: torch.device, *, early: bool) -> None:
        self.targets, drafters = [], []
        for dtype in (torch.float64, torch.float32):
            target = Target(TARGET, device, dtype)
            drafter = Drafter(config, device, dtype)
            fill(target, 0)
            fill(drafter, 1)
            drafter.set_context(CAPACITY)
            self.targets.append(target)
            drafters.append(drafter)
        self.law = drafters[0]
        self.ours = LaunchedDrafter(drafters[1], self.targets[1], early=early)
        self.theirs, self.mine = (slot(d) for d in drafters)
        self.generator = torch.Generator(device).manual_seed(2)

    def features(self, m: int) -> Tensor:
        made = torch.empty(m, self.law.fc.shape[1], dtype=torch.float64, device=self.law.device)
        return made.normal_(generator=self.generator)

    def extend(self, m: int) -> None:
        features = self.features(m)
        self.law.extend(features, self.theirs)
        self.ours.extend(features.float(), self.mine)
        self.check_context()

    def propose(self, anchor: int, drafts: int, scored: bool) -> Proposal:
        exact = self.law.propose(self.targets[0], anchor, self.theirs, drafts, scored=scored)
        found = self.ours.propose(self.targets[1], anchor, self.mine, drafts, scored=scored)
        assert torch.equal(found.tokens, exact.tokens)
        if scored:
            assert distance(found.confidence, exact.confidence) < TOLERANCE
            assert distance(found.entropy, exact.entropy) < TOLERANCE
        else:
            assert found.confidence is None
        self.check_context()
        return found

    def check_context(self) -> None:
        assert self.mine.length == self.theirs.length
        for found, exact in zip(context(self.mine), context(self.theirs), strict=True):
            assert distance(found, exact) < TOLERANCE or not exact.numel()


def slot(drafter: Drafter) -> DrafterSlot:
    state = DrafterState(drafter.config, CAPACITY, device=drafter.device, dtype=drafter.dtype)
    return state.slot()


def context(s: DrafterSlot) -> tuple[Tensor, Tensor]:
    """The rows of committed tokens: all of the full cache's, of the ring those of its window."""
    ring = s.ring.shape[-2]
    kept = torch.arange(max(0, s.length - (ring - 16)), s.length) % ring
    return s.full[..., : s.length, :], s.ring[..., kept, :]


def distance(ours: Tensor, exact: Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


@pytest.fixture(params=[False, True], ids=["plain", "early"])
def early(request, device):
    if request.param and device.type != "cuda":
        pytest.skip("programmatic dependent launch needs a GPU")
    return request.param


@pytest.mark.parametrize("name", FORMS)
def test_rounds_give_what_the_model_gives(name, device, early):
    """The ring of 24 + 16 rows is passed once by the block alone and once by the context."""
    twins = Twins(FORMS[name], device, early=early)
    for m, drafts, scored in ((27, 15, True), (20, 4, False)):
        twins.extend(m)
        twins.propose(3 * m, drafts, scored)


def test_a_prompt_s_features_and_a_round_s_share_a_cache(device, early):
    """Whatever is too long for passes is the model's own work."""
    twins = Twins(MIXED, device, early=early)
    twins.extend(FEW + 1)
    twins.extend(3)
    twins.propose(7, 15, True)


def test_bits_depend_neither_on_the_division_nor_on_the_rows_beyond(device, early):
    """Sixteen tokens at once and in four parts; one, four and fifteen drafts of a causal block."""
    config = FORMS["causal"]
    one, other = (Twins(config, device, early=early) for _ in range(2))
    features = one.features(16).float()
    _damage(other)
    one.ours.extend(features, one.mine)
    for part in features.split((5, 1, 7, 3)):
        other.ours.extend(part, other.mine)
    for a, b in zip(context(one.mine), context(other.mine), strict=True):
        assert torch.equal(a, b)
    whole = one.ours.propose(one.targets[1], 5, one.mine, 15, scored=True)
    for drafts in (1, 4, 15):
        _damage(other)
        part = other.ours.propose(other.targets[1], 5, other.mine, drafts, scored=True)
        for name in ("tokens", "confidence", "entropy"):
            assert torch.equal(getattr(part, name), getattr(whole, name)[:drafts]), name


def _damage(twins: Twins) -> None:
    """Whatever a pass does not write itself is NaN."""
    buffers = twins.ours._of(twins.mine).buffers
    for name in ("features", "kv", "x", "qkv", "q", "attended", "inner"):
        getattr(buffers, name).fill_(NAN)
    for t in buffers.normed:
        t.fill_(NAN)


def test_another_target_is_refused(device):
    twins = Twins(FORMS["full"], device, early=False)
    with pytest.raises(AssertionError, match="the target it is made for"):
        twins.ours.propose(twins.targets[0], 5, twins.mine, 3)
