"""Rows of logits before tokens are taken from them: bias, penalties, the tokens a grammar allows.

A row of a verified block sees what plain decoding would see there: the answer so far and the drafts
before it, as if they had been emitted. `kernels/sampling/naive.py` has the law, a row at a time;
here all rows are adjusted at once, from counts that stay on the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from hybridspec.core import SamplingParams

BITS = 32  # tokens a word of a mask
NONE = (1.0, 0.0, 0.0)  # penalties that change nothing


class Adjustment:
    """Bias and penalties of one request, and the tokens that they count."""

    def __init__(
        self, params: SamplingParams, prompt: Sequence[int], vocab_size: int, device: torch.device
    ) -> None:
        """Count the prompt, which the repetition penalty alone looks at."""
        self._repetition, self._frequency, self._presence = _penalties(params)
        self._counts = _penalties(params) != NONE
        self._answered = torch.zeros(vocab_size, dtype=torch.int32, device=device)
        self._seen = torch.zeros(vocab_size, dtype=torch.bool, device=device)
        self._seen[torch.tensor(prompt, device=device)] = True
        self._bias = _dense(params, vocab_size, device) if params.logit_bias else None

    @classmethod
    def of(
        cls, params: SamplingParams, prompt: Sequence[int], vocab_size: int, device: torch.device
    ) -> Adjustment | None:
        """That of a request; None where it asks for none."""
        wanted = _penalties(params) != NONE or params.logit_bias
        return cls(params, prompt, vocab_size, device) if wanted else None

    def rows(self, logits: Tensor, drafts: Tensor | None) -> Tensor:
        """[w, V] adjusted logits, in memory of their own.

        Args:
            logits: [w, V]; row j follows drafts 1..j.
            drafts: [w - 1] int64 on their device; None: w is 1.
        """
        out = self._adjusted(logits, self._answered, self._seen, self._bias)
        if self._counts and drafts is not None and len(drafts):
            # Rows differ from one another in the counts of the drafts alone.
            same = drafts[:, None] == drafts
            times = torch.cat((torch.zeros_like(same[:1]), same)).cumsum(0)  # [w, w - 1]
            own, seen = self._answered[drafts] + times, self._seen[drafts] | (times > 0)
            bias = None if self._bias is None else self._bias[drafts]
            out[:, drafts] = self._adjusted(logits[:, drafts], own, seen, bias)
        return out

    def keep(self, tokens: Sequence[int]) -> None:
        """Count tokens that the answer has got."""
        if self._counts:
            ids = torch.tensor(tokens, device=self._seen.device)
            self._seen[ids] = True
            self._answered.index_add_(0, ids, torch.ones_like(ids, dtype=torch.int32))

    def _adjusted(self, logits: Tensor, own: Tensor, seen: Tensor, bias: Tensor | None) -> Tensor:
        """Bias, repetition, frequency, presence, in this order: own, seen and bias broadcast."""
        x = logits if bias is None else logits + bias
        if not self._counts:
            return x
        repeated = torch.where(x > 0, x / self._repetition, x * self._repetition)
        x = torch.where(seen, repeated, x)
        return x - self._frequency * own.to(x.dtype) - self._presence * (own > 0).to(x.dtype)


def masked(logits: Tensor, words: Tensor) -> Tensor:
    """[w, V] logits with minus infinity where a token may not come, in memory of their own.

    Args:
        logits: [w, V].
        words: [w, ceil(V / 32)] int32 on their device: bit b of word i of a row is set where token
            32 i + b may come.
    """
    bits = (words[:, :, None] >> torch.arange(BITS, dtype=torch.int32, device=words.device)) & 1
    allowed = bits.flatten(1)[:, : logits.shape[1]].bool()
    return logits.masked_fill(~allowed, -torch.inf)


def _penalties(params: SamplingParams) -> tuple[float, float, float]:
    return params.repetition_penalty, params.frequency_penalty, params.presence_penalty


def _dense(params: SamplingParams, vocab_size: int, device: torch.device) -> Tensor:
    """[V] float32: the bias of every token."""
    bias = torch.zeros(vocab_size)
    ids, values = zip(*params.logit_bias, strict=True)
    bias[list(ids)] = torch.tensor(values)
    return bias.to(device)
