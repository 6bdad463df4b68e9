"""An engine whose target says a given text: real weights, rounds, verifiers and sampling around it.

Or says its own, and only its drafter is told what that will be (`draft`).

The script acts on logits, so what comes after them (penalties, grammars, log-probabilities) acts on
the script too. Where such a thing refuses a scripted token, the model's own choice stands in its
place, and the script goes on behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from hybridspec.core import Proposal
from hybridspec.engine import Engine
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import PassOutput, Target
from hybridspec.text.tokenizer import Tokenizer

RIGHT = 99  # in a plan: no error in this round
# What the scripted answers of several tests call.
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "save",
            "parameters": {"properties": {"text": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }
]
SPECIALS = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}


class ScriptedTarget(Target):
    """Says `script` after any prompt, and the end of the answer for ever after.

    Where it is not `told`, the script is what its drafter takes it to say, and no more.
    """

    script: Sequence[int] = ()
    end = 0
    told = True
    above = 200.0  # a scripted token's logit over the highest of the others
    start = 0  # of the answer under way

    def said(self, position: int) -> int:
        """The token at a position of prompt and answer."""
        place = position - self.start
        return self.script[place] if place < len(self.script) else self.end

    def prefill(self, ids, slot) -> PassOutput:
        out = super().prefill(ids, slot)
        self.start = slot.length
        return self._raised(out, slot.length)

    def stage1(self, stage0, w, slot, verifier) -> PassOutput:
        return self._raised(super().stage1(stage0, w, slot, verifier), slot.length + 1)

    def _raised(self, out: PassOutput, first: int) -> PassOutput:
        if not self.told:
            return out
        logits = out.logits.clone()
        for row, values in enumerate(logits):
            values[self.said(first + row)] = values.max() + self.above
        return out._replace(logits=logits)


class ScriptedDrafter(Drafter):
    """Proposes what its target will say, with one planted error a round; without a plan, its own.

    Where it is `sure`, it says so of every draft, and policies that go by it verify many.
    """

    plan: Sequence[int] = (RIGHT,)
    sure = False
    rounds = 0

    def propose(self, target, anchor, slot, drafts, *, scored=False) -> Proposal:
        proposal = super().propose(target, anchor, slot, drafts, scored=scored)
        if not self.plan:
            return proposal
        known = [target.said(slot.length + 1 + i) for i in range(drafts)]
        right = self.plan[self.rounds % len(self.plan)]
        self.rounds += 1
        if right < drafts:
            known[right] = (known[right] + 1) % target.config.vocab_size
        confidence, entropy = proposal.confidence, proposal.entropy
        if self.sure and confidence is not None and entropy is not None:
            confidence, entropy = torch.full_like(confidence, 0.98), torch.full_like(entropy, 0.1)
        return Proposal(torch.tensor(known), confidence, entropy)


def text_engine(template: str | None = None, **options) -> Engine:
    """The embedded pair under a script; `say` sets it.

    `template` takes the place of the chat template (`qwen_style.TEMPLATE`); `options` are those of
    `Engine.load`.
    """
    engine = Engine.load(device="cpu", progress=False, **options)
    engine.target.__class__, engine.drafter.__class__ = ScriptedTarget, ScriptedDrafter
    if template is not None:
        engine.tokenizer = Tokenizer(engine.tokenizer._backend, SPECIALS, template)
    say(engine, "")
    return engine


def say(engine: Engine, text: str | Sequence[int], plan: Sequence[int] = (RIGHT,)) -> list[int]:
    """From now on every answer is `text`, and its end. `plan`: drafts that are right in each round,
    over and over. Returns the tokens of the text."""
    if isinstance(text, str):
        text = engine.tokenizer.encode(text, add_special_tokens=False)
    engine.target.script, engine.target.end = list(text), engine.defaults.eos_token_ids[0]
    engine.target.told = True
    engine.drafter.plan, engine.drafter.rounds = plan, 0
    return list(text)


def draft(engine: Engine, ids: Sequence[int], plan: Sequence[int] = (RIGHT,)) -> None:
    """From now on answers are the model's own, and are drafted as if they were `ids`."""
    say(engine, ids, plan)
    engine.target.told = False
