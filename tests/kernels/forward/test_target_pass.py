"""Whole passes of kernels against the model's: logits, features, routing, committed state."""

from __future__ import annotations

import pytest
import torch

from builders import fill, target_config
from hybridspec.kernels.forward.buffers import Buffers
from hybridspec.kernels.forward.gdn import blocks
from hybridspec.kernels.forward.target import TargetPass
from hybridspec.kernels.forward.weights import TargetWeights
from hybridspec.model.target import Target
from hybridspec.runtime.state import TargetSlot, TargetState

# fp32 on both sides: sums of some hundred products in another order, through eight layers
TOLERANCE = 2e-4
TAPS = (0, 2, 3)
SMALL = target_config(
    layer_types=(*("linear_attention",) * 2, "full_attention", "linear_attention")
)


class Twins:
    """One model, two slots: the law's and the kernels'."""

    def __init__(self, device: torch.device, early: bool = False) -> None:
        self.law = Target(SMALL, device, torch.float64)
        self.target = Target(SMALL, device, torch.float32)
        for target in (self.law, self.target):
            fill(target, 3)
            target.set_context(128)
        self.theirs = self._slot(self.law)
        self.ours = self._slot(self.target)
        buffers = Buffers.empty(
            SMALL, len(TAPS), blocks(SMALL, device.type, torch.float32), self.ours.keys.shape[2],
            device, torch.float32,
        )  # fmt: skip
        self.run = TargetPass(
            self.target, TargetWeights.of(self.target), self.ours, buffers, early=early
        )

    def _slot(self, target: Target) -> TargetSlot:
        state = TargetState(SMALL, 128, device=target.device, dtype=target.dtype, joint=True)
        return state.slot(0, TAPS)

    def prefill(self, tokens: int) -> None:
        ids = torch.arange(tokens, device=self.law.device) * 7 % SMALL.vocab_size
        self.law.prefill(ids, self.theirs)
        self.target.prefill(ids, self.ours)

    def lengths(self, u: int, w: int, m: int) -> None:
        values = torch.tensor([self.ours.length, u, w, m], dtype=torch.int32)
        self.run.buffers.lengths.all.copy_(values)

    def verify(self, ids: list[int], u: int, w: int, m: int) -> None:
        """One split round of both; compares what comes out and commits m."""
        tokens = torch.tensor(ids, device=self.law.device)
        self.run.buffers.tokens[: len(ids)] = tokens
        self.lengths(u, w, m)
        self.run.stage0()
        looked = self.law.stage0(tokens[:u], self.theirs, "exact")
        routed = self.run.buffers.routed
        assert torch.equal(routed.ids[:u].long(), looked.experts)
        self.run.stage1()
        out = self.law.stage1(looked, w, self.theirs, "exact")
        assert distance(self.run.buffers.logits[:w], out.logits) < TOLERANCE
        assert out.features is not None
        assert distance(self.run.buffers.features[:w], out.features) < TOLERANCE
        self.run.commit()
        self.theirs.commit(m, "exact")
        self.ours.length += m


def distance(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours.double() - exact).norm() / exact.norm())


def state(slot: TargetSlot) -> dict[str, torch.Tensor]:
    return {
        "states": slot.checkpoint,
        "columns": slot.conv[:, :3],
        "keys": slot.keys[:, :, : slot.length],
        "values": slot.values[:, :, : slot.length],
    }


@pytest.fixture(params=[False, True], ids=["plain", "early"])
def early(request, device):
    if request.param and device.type != "cuda":
        pytest.skip("programmatic dependent launch needs a GPU")
    return request.param


def test_rounds_give_what_the_model_gives(device, early):
    twins = Twins(device, early)
    twins.prefill(21)
    twins.verify([5, 9, 11, 40, 3, 8], u=6, w=4, m=2)
    twins.verify([11, 2, 77, 1], u=4, w=4, m=4)
    twins.verify([60], u=1, w=1, m=1)
    for name, exact in state(twins.theirs).items():
        assert distance(state(twins.ours)[name], exact) < TOLERANCE, name


def test_a_token_s_bits_depend_neither_on_w_nor_on_the_cut(device, early):
    """One token a round against a round of several, split and unsplit: equal logits and state."""
    ids = [5, 9, 11]
    twins, alone = Twins(device, early), Twins(device, early)
    for each in (twins, alone):
        each.prefill(5)
    twins.run.buffers.tokens[:3] = torch.tensor(ids, device=device)
    twins.lengths(3, 3, 3)
    twins.run.unsplit()
    together = twins.run.buffers.logits[:3].clone()
    twins.run.commit()
    twins.ours.length += 3
    for t, token in enumerate(ids):
        alone.run.buffers.tokens[0] = token
        alone.lengths(1, 1, 1)
        alone.run.stage0()
        alone.run.stage1()
        assert torch.equal(alone.run.buffers.logits[0], together[t])
        alone.run.commit()
        alone.ours.length += 1
    for name, ours in state(alone.ours).items():
        assert torch.equal(ours, state(twins.ours)[name]), name
