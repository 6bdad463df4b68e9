"""A drafter that runs in full and then says what a script tells it to."""

from __future__ import annotations

import torch
from torch import Tensor

from hybridspec.bench.scripted import script as law
from hybridspec.bench.scripted.script import Drafts, Script
from hybridspec.core import Proposal
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import Target
from hybridspec.runtime.drafter_state import DrafterSlot


class ScriptedDrafter(Drafter):
    """The same model as the one it is made of, which does all the work."""

    def __init__(self, drafter: Drafter, script: Script) -> None:
        """drafter: loaded and prepared."""
        vars(self).update(vars(drafter))
        self._inner, self._script = drafter, script
        self._drafts = Drafts.empty(self.device)
        self._position = torch.zeros((), dtype=torch.int32, device=self.device)

    def set_context(self, capacity: int) -> None:
        """As the model's."""
        self._inner.set_context(capacity)

    def extend(self, features: Tensor, slot: DrafterSlot) -> None:
        """As the model's."""
        self._inner.extend(features, slot)

    def propose(
        self, target: Target, anchor: int, slot: DrafterSlot, drafts: int, *, scored: bool = False
    ) -> Proposal:
        """As the model's, with the script's tokens and scores."""
        self._inner.propose(target, anchor, slot, drafts, scored=scored)
        said = self._drafts
        said.tokens[:1].fill_(anchor)
        self._position.fill_(slot.length)
        draft(self._script, said.tokens[:1], self._position, said)
        tokens, *scores = (t[1 : drafts + 1].clone() for t in said)
        return Proposal(tokens, *scores) if scored else Proposal(tokens)


def draft(script: Script, anchor: Tensor, position: Tensor, out: Drafts) -> None:
    """By the kernel where there is a GPU, else by the law."""
    if anchor.is_cuda:
        from hybridspec.bench.scripted import drafts

        drafts.draft(script, anchor, position, out)
    else:
        law.draft(script, anchor, position, out)
