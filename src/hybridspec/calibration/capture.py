"""Dense capture: plain decoding that begins a whole round at every position and keeps one token.

A round costs a drafter call and a verification of all W inputs. Only the anchor is committed, so
the answer is plain decoding's own and every position is seen (paper appendix E.3, made dense).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from torch import Tensor

from hybridspec.calibration.trace import Trace
from hybridspec.core import PREFILL_CHUNK, Proposal
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.sampling import accept
from hybridspec.runtime.state import DrafterSlot, DrafterState, TargetSlot, TargetState


class Capture:
    """Memory for captures of one pair: prompts of up to `capacity` tokens with their answers."""

    def __init__(self, target: Target, drafter: Drafter, capacity: int) -> None:
        self.target, self.drafter = target, drafter
        device, dtype = target.device, target.dtype
        target.set_context(capacity)
        drafter.set_context(capacity)
        self.state = TargetState(target.config, capacity, device=device, dtype=dtype)
        self.drafter_state = DrafterState(drafter.config, capacity, device=device, dtype=dtype)

    @torch.inference_mode()
    def answer(
        self, number: int, prompt: list[int], stop: Collection[int], max_tokens: int
    ) -> Trace:
        """The trace of one greedy answer of at most `max_tokens` tokens to prompt ids.

        number: what the trace calls this prompt.
        """
        slot = self.state.slot(tap_layers=self.drafter.config.target_layer_ids)
        drafter_slot = self.drafter_state.slot()
        anchor = self.prefill(prompt, slot, drafter_slot)
        rounds: list[tuple[Proposal, int, Tensor]] = []
        while anchor not in stop and len(rounds) < max_tokens - 1:
            proposal, accepted, experts, anchor = self._round(anchor, slot, drafter_slot)
            rounds.append((proposal, accepted, experts))
        return self._trace(number, rounds)

    def prefill(self, prompt: list[int], slot: TargetSlot, drafter_slot: DrafterSlot) -> int:
        """Run prompt ids into fresh slots; the target's first token."""
        for part in torch.tensor(prompt, device=self.target.device).split(PREFILL_CHUNK):
            out = self.target.prefill(part, slot)
            assert out.features is not None
            self.drafter.extend(out.features, drafter_slot)
        return int(out.logits[-1].argmax())

    def _round(
        self, anchor: int, slot: TargetSlot, drafter_slot: DrafterSlot
    ) -> tuple[Proposal, int, Tensor, int]:
        """Draft and verify everything, keep the anchor: the proposal, A_D, experts [L, W, k], and
        the target's next token."""
        drafts = self.drafter.config.block_size - 1
        proposal = self.drafter.propose(self.target, anchor, drafter_slot, drafts, scored=True)
        inputs = torch.cat((torch.tensor([anchor], device=self.target.device), proposal.tokens))
        slot.routes = []
        stage0 = self.target.stage0(inputs, slot, "exact")
        out = self.target.stage1(stage0, len(inputs), slot, "exact")
        experts = torch.stack([stage0.experts, *slot.routes])
        slot.routes = None
        y = out.logits.argmax(-1)
        self.target.commit(slot, 1, "exact")
        assert out.features is not None
        self.drafter.extend(out.features[:1], drafter_slot)
        return proposal, int(accept(proposal.tokens, y)), experts, int(y[0])

    def _trace(self, number: int, rounds: list[tuple[Proposal, int, Tensor]]) -> Trace:
        n, config = len(rounds), self.target.config
        drafts = self.drafter.config.block_size - 1
        shape = (config.num_hidden_layers, drafts + 1, config.num_experts_per_tok)
        experts = np.zeros((n, *shape), np.uint16)
        scores = np.zeros((2, n, drafts), np.float32)
        for i, (proposal, _, chosen) in enumerate(rounds):
            assert proposal.confidence is not None
            assert proposal.entropy is not None
            scores[0, i] = proposal.confidence.float().cpu().numpy()
            scores[1, i] = proposal.entropy.float().cpu().numpy()
            experts[i] = chosen.cpu().numpy()
        accepted = np.array([a for _, a, _ in rounds], np.int16)
        prompt, left = np.full(n, number, np.int32), np.arange(n, 0, -1, dtype=np.int32)
        return Trace(prompt, left, scores[0], scores[1], accepted, experts)
