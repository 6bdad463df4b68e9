"""Rounds of a request that adjusts the target's rows or asks what they say; the host leads them."""

from __future__ import annotations

import copy
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hybridspec.core import RoundStats, SamplingParams, TokenLogprobs
from hybridspec.model.drafter import Drafter
from hybridspec.model.target import PassOutput, Target
from hybridspec.runtime.adjust import Adjustment, masked
from hybridspec.runtime.logprobs import token_logprobs
from hybridspec.runtime.round import Rounds, Sequence
from hybridspec.systems import System
from hybridspec.text.grammar import Walk
from hybridspec.text.stop import Emission, OutputStream


@dataclass(frozen=True, slots=True)
class Steering:
    """What a request does with the rows of its answer, beside taking tokens from them.

    Attributes:
        adjustment: bias and penalties.
        walk: the grammar's, which says which tokens may come.
        logprobs: as in `SamplingParams`.
    """

    adjustment: Adjustment | None = None
    walk: Walk | None = None
    logprobs: int | None = None

    @classmethod
    def of(
        cls,
        params: SamplingParams,
        prompt: Many[int],
        vocab_size: int,
        device: torch.device,
        walk: Walk | None = None,
    ) -> Steering | None:
        """That of a request; None where it asks for nothing: rounds are then as ever."""
        adjustment = Adjustment.of(params, prompt, vocab_size, device)
        made = cls(adjustment, walk, params.logprobs)
        return made if made.changes or params.logprobs is not None else None

    @property
    def changes(self) -> bool:
        """Whether tokens may be others than the model's own."""
        return self.adjustment is not None or self.walk is not None

    def rows(self, logits: Tensor, drafts: Tensor | None) -> Tensor:
        """[w, V] logits that tokens are taken from; arguments as in `Adjustment.rows`."""
        if self.adjustment is not None:
            logits = self.adjustment.rows(logits, drafts)
        if self.walk is not None:
            words = self.walk.masks([] if drafts is None else drafts.tolist())
            return logits if words is None else masked(logits, words.to(logits.device))
        return logits

    def keep(self, logits: Tensor, tokens: Many[int]) -> tuple[TokenLogprobs, ...]:
        """Take note of tokens that the answer has got, the first ones of the rows `logits`."""
        if self.adjustment is not None:
            self.adjustment.keep(tokens)
        if self.walk is not None:
            self.walk.keep(tokens)
        if self.logprobs is None:
            return ()
        return token_logprobs(logits[: len(tokens)], tokens, self.logprobs)


class SteeredRounds(Rounds):
    """As `Rounds`, with rows that are adjusted before the target's tokens are taken from them.

    Drafts stay as they are: one that the adjusted row does not give is simply not accepted.
    """

    def __init__(
        self, target: Target, drafter: Drafter | None, system: System, steering: Steering
    ) -> None:
        """A policy that learns does so from a copy where tokens are not the model's own: what it
        finds there holds for this answer alone."""
        if steering.changes and hasattr(system.policy, "observe"):
            system = replace(system, policy=copy.deepcopy(system.policy))
        super().__init__(target, drafter, system)
        self._steering = steering
        self._logits: Tensor | None = None  # of the last rows, as the model gave them

    def first_token(self, sequence: Sequence, out: PassOutput) -> int:
        """As there."""
        token = super().first_token(sequence, out)
        self._kept((token,))
        return token

    def run(
        self, sequence: Sequence, output: OutputStream, remaining: int
    ) -> tuple[Emission, tuple[int, ...], RoundStats]:
        """As there."""
        emission, tokens, stats = super().run(sequence, output, remaining)
        self._kept(tokens)
        return emission, tokens, stats

    def _rows(self, out: PassOutput, drafts: Tensor | None) -> Tensor:
        self._logits = out.logits
        return self._steering.rows(out.logits, drafts)

    def _kept(self, tokens: tuple[int, ...]) -> None:
        assert self._logits is not None
        self.logprobs = self._steering.keep(self._logits, tokens)
        self._logits = None
