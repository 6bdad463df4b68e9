"""Verifications of every length at the positions of plain decoding, timed by component."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hybridspec.bench.component_clock import Clock, told_apart
from hybridspec.calibration.capture import Capture
from hybridspec.calibration.cost import new_in_row
from hybridspec.model.drafter import Drafter
from hybridspec.model.gdn import Verifier
from hybridspec.model.target import PassOutput, Target
from hybridspec.runtime.state import DrafterSlot, TargetSlot

WARMUP = 8  # positions measured first and discarded
Advance = Callable[[str], None]
Times = dict[int, list[float]]


@dataclass(frozen=True)
class Samples:
    """One entry a position, by w.

    Attributes:
        components: ms of a call by component.
        whole: ms of the same call, without the wrappers that tell components apart.
        drafter: ms of a call for w - 1 drafts; none at w = 1.
        pairs: distinct (layer, expert) pairs of the first w inputs.
        new: not by w but [L, longest], the experts of each input that none before it chose.
    """

    components: dict[int, list[dict[str, float]]] = field(default_factory=lambda: defaultdict(list))
    whole: Times = field(default_factory=lambda: defaultdict(list))
    drafter: Times = field(default_factory=lambda: defaultdict(list))
    pairs: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    new: list[NDArray[np.int64]] = field(default_factory=list)


class Walk:
    """Greedy answers whose every position is verified at every length; one token is kept."""

    def __init__(
        self, target: Target, drafter: Drafter, lengths: Sequence[int], verifier: Verifier,
        capacity: int,
    ) -> None:  # fmt: skip
        """capacity: tokens of the longest prompt with its answer."""
        self.target, self.drafter, self.verifier = target, drafter, verifier
        self.lengths, self.longest = list(lengths), max(lengths)
        self.memory = Capture(target, drafter, capacity)
        self.clock = Clock(target.device)
        self.order = random.Random(0)

    def run(
        self, prompts: Sequence[list[int]], stop: Collection[int], max_tokens: int, advance: Advance
    ) -> Samples:
        """All answers after a warm-up on the first prompt.

        Args:
            prompts: token ids.
            stop: token ids that end an answer.
            max_tokens: of an answer.
            advance: told what comes next, before the warm-up and each answer.
        """
        advance("warm-up")
        self._answer(prompts[0], stop, min(max_tokens, WARMUP + 1), Samples())
        samples = Samples()
        for number, ids in enumerate(prompts):
            advance(f"answer {number + 1}")
            self._answer(ids, stop, max_tokens, samples)
        return samples

    @torch.inference_mode()
    def _answer(
        self, prompt: list[int], stop: Collection[int], max_tokens: int, samples: Samples
    ) -> None:
        slot = self.memory.state.slot(tap_layers=self.drafter.config.target_layer_ids)
        drafter_slot = self.memory.drafter_state.slot()
        anchor = self.memory.prefill(prompt, slot, drafter_slot)
        for _ in range(max_tokens - 1):
            if anchor in stop:
                return
            anchor = self._position(anchor, slot, drafter_slot, samples)

    def _position(
        self, anchor: int, slot: TargetSlot, drafter_slot: DrafterSlot, samples: Samples
    ) -> int:
        """Measure every length, keep the anchor; the target's next token."""
        inputs = self._inputs(anchor, drafter_slot)
        out = self._count(inputs, slot, samples)
        for w in self.order.sample(self.lengths, len(self.lengths)):
            if w > 1:
                samples.drafter[w].append(self._draft(anchor, drafter_slot, w - 1))
            for apart in self.order.sample((True, False), 2):
                spent = self._verify(inputs[:w], slot, apart)
                if apart:
                    samples.components[w].append(spent)
                else:
                    samples.whole[w].append(sum(spent.values()))
        self.target.commit(slot, 1, self.verifier)  # row 0, which every length has verified
        assert out.features is not None
        self.drafter.extend(out.features[:1], drafter_slot)
        return int(out.logits[0].argmax())

    def _inputs(self, anchor: int, drafter_slot: DrafterSlot) -> Tensor:
        """[longest] int64: the anchor and drafts."""
        first = torch.tensor([anchor], device=self.target.device)
        if self.longest == 1:
            return first
        drafts = self.longest - 1
        proposal = self.drafter.propose(self.target, anchor, drafter_slot, drafts)
        return torch.cat((first, proposal.tokens))

    def _count(self, inputs: Tensor, slot: TargetSlot, samples: Samples) -> PassOutput:
        """Verify all inputs untimed, and count the distinct experts that each length has."""
        slot.routes = []
        stage0 = self.target.stage0(inputs, slot, self.verifier)
        out = self.target.stage1(stage0, len(inputs), slot, self.verifier)
        experts = torch.stack([stage0.experts, *slot.routes]).cpu().numpy()  # [L, W, k]
        slot.routes = None
        (new,) = new_in_row(experts[None].astype(np.uint16))
        samples.new.append(new)
        pairs = new.sum(0).cumsum()
        for w in self.lengths:
            samples.pairs[w].append(int(pairs[w - 1]))
        return out

    def _draft(self, anchor: int, drafter_slot: DrafterSlot, drafts: int) -> float:
        """ms of a draft call, without confidences."""
        self.clock.start()
        self.drafter.propose(self.target, anchor, drafter_slot, drafts)
        return sum(self.clock.stop().values())

    def _verify(self, inputs: Tensor, slot: TargetSlot, apart: bool) -> dict[str, float]:
        """ms of a verification by component; all of it is `other` where they are not told apart."""
        if not apart:
            return self._call(inputs, slot)
        with told_apart(self.target, self.clock):
            return self._call(inputs, slot)

    def _call(self, inputs: Tensor, slot: TargetSlot) -> dict[str, float]:
        self.clock.start()
        stage0 = self.target.stage0(inputs, slot, self.verifier)
        self.target.stage1(stage0, len(inputs), slot, self.verifier)
        return self.clock.stop()
