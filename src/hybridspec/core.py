"""The nouns of the engine, as frozen dataclasses. Terms and symbols are the paper's.

Counting convention, everywhere: w counts target inputs of a verification (the anchor included), A
counts accepted draft tokens only, a round emits A + 1 tokens, and the acceptance length is what a
round emits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from hybridspec.checks import check_sampling

FinishReason = Literal["stop", "length", "abort"]
PREFILL_CHUNK = 512  # prompt tokens a pass: bounds the memory of scores and features
# On a GPU in half precision, where attention keeps no scores: an expert of 256 sees 256 tokens of
# 8,192, and its weights are read once for them. A pass needs 1.3 GB at the 35B shape.
GPU_PREFILL_CHUNK = 8192


def prefill_chunk(device: torch.device, dtype: torch.dtype) -> int:
    """Prompt tokens a pass of a model."""
    flash = device.type == "cuda" and dtype in (torch.bfloat16, torch.float16)
    return GPU_PREFILL_CHUNK if flash else PREFILL_CHUNK


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen and when generation ends.

    Raises OptionError for a value of another type or out of range, and for a filter (`top_k`,
    `top_p`, `min_p`) at temperature 0, where it would change nothing.

    Attributes:
        max_tokens: most tokens to emit, at least 1.
        temperature: 0 is greedy; otherwise logits are divided by it.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set of most likely tokens whose probability reaches p.
        min_p: drop tokens less likely than min_p times the most likely one.
        seed: seeds Philox(seed, position); None draws one and reports it.
        stop: strings that end the text; the text is cut exactly before the first one.
        stop_token_ids: ids that end generation, beside the model's own.
        ignore_eos: run on past the model's own stop ids.
        presence_penalty: -2 to 2, taken off the logit of a token that the answer has; the prompt
            does not count (OpenAI, vLLM).
        frequency_penalty: -2 to 2, the same for every time that the answer has it.
        repetition_penalty: 0.01 to 2; a token of the prompt or the answer has its logit divided by
            it above 0 and multiplied below (transformers, vLLM). 1 is off.
        logit_bias: (token id, -100..100) pairs, or a mapping, added to logits before all else.
        logprobs: None gives none; k from 0 to 20 gives each token's log-probability and those of
            the k most likely ones, of the model's own distribution: at temperature 1, before bias,
            penalties, grammar and filters.
    """

    max_tokens: int = 256
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        check_sampling(self)
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "stop_token_ids", tuple(self.stop_token_ids))
        object.__setattr__(self, "logit_bias", _pairs(self.logit_bias))

    @property
    def greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0.0


def _pairs(bias: Mapping[int, float] | tuple[tuple[int, float], ...]) -> tuple[Any, ...]:
    pairs = bias.items() if isinstance(bias, Mapping) else bias
    return tuple((token, float(value)) for token, value in pairs)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probabilities (natural) where a token stands, of the model's own distribution.

    Attributes:
        logprob: of the token.
        top: (token id, log-probability) of the most likely tokens, the likeliest first; the token
            itself may be among them.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Proposal:
    """What the drafter proposes after an anchor.

    Attributes:
        tokens: [M] int64, d_1..d_M, each the drafter's most likely token.
        confidence: [M] float32, top-1 probability; None when not asked for.
        entropy: [M] float32, nats; None when not asked for.
    """

    tokens: torch.Tensor
    confidence: torch.Tensor | None = None
    entropy: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the target says of a proposal.

    Attributes:
        accepted: A, the number of leading drafts that equal the target's tokens.
        emitted: the A + 1 tokens of the round, y_1..y_{A+1}; the last is the next anchor.
    """

    accepted: int
    emitted: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a round had its length: what the policy saw and made of it.

    Attributes:
        confidence, entropy: of drafts 1..M, as the drafter gave them; empty where nobody asked.
        prefix: p_1..p_M as the policy estimated them; empty where it does not.
        scores: what it maximised, by length; empty where it maximises nothing.
        w0: the nominal length, before any limit. u: inputs that Stage 0 ran.
        new_experts: layer-0 experts that the input after the first w0 would add; None if Stage 0
            did not run it.
        reason: what the policy went by, in words; empty for a policy that does not say.
    """

    confidence: tuple[float, ...]
    entropy: tuple[float, ...]
    prefix: tuple[float, ...]
    scores: dict[int, float]
    w0: int
    u: int
    new_experts: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RoundStats:
    """One round: w target inputs were verified, A drafts accepted, m inputs committed.

    `explanation` and `drafts` are there where the request asked for them.

    Attributes:
        w0: the length that the policy named, before the remaining tokens, the proposal and the look
            at the router changed it (the paper's w0).
        drafts: [M] int64 on the target's device, every proposed token d_1..d_M, verified or not. It
            is the drafter's own tensor: reading it costs a copy to the host, so read it afterwards.
    """

    w: int
    accepted: int
    committed: int
    w0: int = 0
    explanation: Explanation | None = None
    drafts: torch.Tensor | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class GenerationStats:
    """Facts about one generation.

    Attributes:
        rounds: one entry a round.
        prefill_seconds: prompt to first token.
        decode_seconds: first token to last.
        seed: the seed in force, None when greedy.
        cached_tokens: leading tokens of the prompt that were not run, for a kept state had them.
    """

    rounds: tuple[RoundStats, ...] = ()
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    seed: int | None = None
    cached_tokens: int = 0

    @property
    def accepted(self) -> int:
        """Accepted drafts over all rounds."""
        return sum(r.accepted for r in self.rounds)

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens emitted a round, before any trimming at a stop; 0 without rounds."""
        return (self.accepted + len(self.rounds)) / len(self.rounds) if self.rounds else 0.0

    def __repr__(self) -> str:
        """The sums: an answer may have hundreds of rounds."""
        return (
            f"<GenerationStats: {len(self.rounds)} rounds, {self.accepted} accepted, mean "
            f"acceptance length {self.mean_acceptance_length:.2f}, prefill "
            f"{self.prefill_seconds:.3f} s, decoding {self.decode_seconds:.3f} s, cached_tokens "
            f"{self.cached_tokens}>"
        )


@dataclass(frozen=True, slots=True)
class Generation:
    """The answer to one request. `text` is cut at a stop string; `token_ids` run through it.

    `logprobs` has an entry a token, or none where the request asked for none.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    system: str
    stats: GenerationStats = field(default_factory=GenerationStats)
    logprobs: tuple[TokenLogprobs, ...] = ()
