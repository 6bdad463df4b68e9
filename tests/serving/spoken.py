"""A target that says what a test wants, with the real engine, rounds and stop rule around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hybridspec.core import Proposal
from hybridspec.engine import Engine
from hybridspec.runtime.round import Rounds

RIGHT = 99  # in a plan: every draft of the round


class Script:
    """Replaces what the target says after any prompt; the drafter proposes the same, with errors
    on order. Called with a text and a plan of how many drafts are right, over and over."""

    def __init__(self, engine: Engine, monkeypatch) -> None:
        self._engine, self._patch = engine, monkeypatch

    def __call__(self, text: str | Sequence[int], plan: Sequence[int] = (RIGHT,)) -> list[int]:
        """Returns the tokens, the end of the answer not among them."""
        tokenizer = self._engine.tokenizer
        ids = tokenizer.encode(text) if isinstance(text, str) else list(text)
        end = self._engine.defaults.eos_token_ids[0]
        begins: dict[int, int] = {}
        calls: dict[int, int] = {}
        propose = Rounds._propose

        def said(place: int) -> int:
            return ids[place] if place < len(ids) else end

        def target_tokens(rounds, sequence, rows, first):
            begin = begins.setdefault(id(sequence), first)
            return torch.tensor([said(first - begin + i) for i in range(len(rows))])

        def proposed(rounds, sequence, drafts):
            proposal = propose(rounds, sequence, drafts)
            if proposal is None:
                return None
            at = sequence.slot.length + 1 - begins[id(sequence)]
            right = plan[calls.setdefault(id(sequence), 0) % len(plan)]
            calls[id(sequence)] += 1
            known = [said(at + i) for i in range(len(proposal.tokens))]
            if right < len(known):
                known[right] = (known[right] + 1) % self._engine.target.config.vocab_size
            return Proposal(torch.tensor(known), proposal.confidence, proposal.entropy)

        self._patch.setattr(Rounds, "_target_tokens", target_tokens)
        self._patch.setattr(Rounds, "_propose", proposed)
        return ids
