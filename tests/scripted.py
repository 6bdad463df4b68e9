"""A drafter that knows the answer and errs on order, and a tiny engine around it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from builders import drafter_config, fill, random_target, target_config
from hybridspec.checkpoint import GenerationConfig
from hybridspec.core import Generation, Proposal, SamplingParams
from hybridspec.engine import Engine
from hybridspec.model.config import DrafterConfig, TargetConfig
from hybridspec.model.drafter import Drafter
from hybridspec.stream import Stream

RIGHT = 99  # in a plan: no error in this round
TINY = target_config(
    vocab_size=512,
    hidden_size=32,
    # attention before a GDN layer, so that every committed state depends on it
    layer_types=("linear_attention", "full_attention") * 2,
    head_dim=16,
    linear_key_head_dim=8,
    linear_value_head_dim=12,
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=8,
    shared_expert_intermediate_size=8,
    max_position_embeddings=1024,
)
TINY_DRAFTER = drafter_config(
    TINY,
    intermediate_size=16,
    layer_types=("sliding_attention", "full_attention"),
    head_dim=8,
    target_layer_ids=(0, 2, 3),
    sliding_window=24,
)


class ScriptedDrafter(Drafter):
    """Proposes a known sequence with one planted error a round; random weights until scripted.

    The real block runs first, so the caches are written ahead as by any drafter.
    """

    sequence: Sequence[int] = ()
    plan: Sequence[int] = ()
    calls = 0

    def script(self, sequence: Sequence[int], plan: Sequence[int]) -> None:
        """Propose `sequence` (prompt and answer). `plan`: drafts to get right in each round,
        over and over."""
        self.sequence, self.plan, self.calls = sequence, plan, 0

    def propose(self, target, anchor, slot, drafts, *, scored=False) -> Proposal:
        proposal = super().propose(target, anchor, slot, drafts, scored=scored)
        if not self.plan:
            return proposal
        right = self.plan[self.calls % len(self.plan)]
        self.calls += 1
        known = list(self.sequence[slot.length + 1 : slot.length + 1 + drafts])
        known += [0] * (drafts - len(known))
        if right < drafts:
            known[right] = (known[right] + 1) % self.config.vocab_size
        return Proposal(torch.tensor(known), proposal.confidence, proposal.entropy)


def scripted_engine(
    dtype: torch.dtype = torch.float32,
    *,
    eos: tuple[int, ...] = (),
    max_context: int = 192,
    target: TargetConfig = TINY,
    drafter: DrafterConfig = TINY_DRAFTER,
    prefix_memory: int = 0,
) -> Engine:
    """A tiny random target with a drafter that can be scripted; no tokenizer."""
    model = ScriptedDrafter(drafter, dtype=dtype)
    fill(model, 1)
    return Engine(
        random_target(target, dtype=dtype),
        model,
        defaults=GenerationConfig(eos_token_ids=eos),
        max_context=max_context,
        prefix_memory=prefix_memory,
    )


def prompt_ids(length: int = 9, seed: int = 0) -> list[int]:
    """Random token ids of the tiny target."""
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(0, TINY.vocab_size, (length,), generator=generator).tolist()


def script(engine: Engine, prompt: list[int], plan: Sequence[int], **params) -> tuple[int, ...]:
    """Teach the drafter the plain answer of `max_tokens` tokens, past any stop; returns it."""
    answer = engine.generate(prompt, SamplingParams(**params, ignore_eos=True), system="ar")
    engine.drafter.script([*prompt, *answer.token_ids], plan)
    return answer.token_ids


def run(
    engine: Engine, prompt: list[int], system: str, params: SamplingParams
) -> tuple[Generation, Stream]:
    """The answer, and the stream that gave it, for a look at its state."""
    stream = engine.stream(prompt, params, system=system)
    for _ in stream:
        pass
    return stream.result(), stream
