"""What drafting did for one response, in the shapes that clients of other servers read.

w counts target inputs of a verification, the anchor included; accepted counts drafts only; a round
emits its accepted drafts and one token more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hybridspec.cli.report import histogram
from hybridspec.core import Generation, RoundStats


@dataclass(frozen=True, slots=True)
class Facts:
    """The answers of one response, and what was asked of their statistics.

    Attributes:
        answers: all choices.
        drafts: D, the most drafts of a round; 0 without a drafter.
        queue_seconds: how long the answers waited, in all.
        sglang: whether the request asks for SGLang's shape.
    """

    answers: Sequence[Generation]
    drafts: int
    queue_seconds: float = 0.0
    sglang: bool = False

    def document(self) -> dict[str, Any]:
        """Fields to stand beside `choices` and `usage`."""
        document = {"timings": self._timings(), "hybridspec": self._own()}
        if self.drafts:
            document["metrics"] = {"speculative_decoding": self._vllm()}
        if self.drafts and self.sglang:
            document["sglext"] = {"spec_tokens_details": self._sglang()}
        return document

    @property
    def _rounds(self) -> list[RoundStats]:
        return list(chain.from_iterable(answer.stats.rounds for answer in self.answers))

    @property
    def _accepted(self) -> int:
        return sum(r.accepted for r in self._rounds)

    @property
    def _offered(self) -> int:
        return sum(r.w - 1 for r in self._rounds)

    @property
    def _length(self) -> float:
        """Tokens a round, before any trimming at a stop."""
        rounds = len(self._rounds)
        return 1 + self._accepted / rounds if rounds else 0.0

    @property
    def _rate(self) -> float:
        return self._accepted / self._offered if self._offered else 0.0

    def _vllm(self) -> dict[str, Any]:
        rounds = self._rounds
        lengths = sorted({r.w - 1 for r in rounds})
        by_length = {
            str(k): histogram((r.accepted for r in rounds if r.w - 1 == k), k + 1) for k in lengths
        }
        return {
            "mean_acceptance_length": self._length,
            "draft_acceptance_rate": self._rate,
            "acceptance_histogram": histogram((r.accepted for r in rounds), self.drafts + 1),
            "acceptance_histogram_by_draft_length": by_length,
            "num_spec_steps": len(rounds),
            "num_accepted_draft_tokens": self._accepted,
            "num_draft_tokens": self._offered,
            "num_spec_tokens": self.drafts,
        }

    def _sglang(self) -> dict[str, Any]:
        rounds = self._rounds
        return {
            "spec_accept_rate": self._rate,
            "spec_accept_length": self._length,
            "spec_num_correct_drafts": self._accepted,
            "spec_num_proposed_drafts": self._offered,
            "spec_verify_ct": len(rounds),
            "spec_correct_drafts_histogram": histogram(
                (r.accepted for r in rounds), self.drafts + 1
            ),
        }

    def _timings(self) -> dict[str, Any]:
        """llama.cpp's. The first token comes with the prompt's time, as there."""
        cached = sum(answer.stats.cached_tokens for answer in self.answers)
        prompt = sum(answer.prompt_tokens for answer in self.answers) - cached
        predicted = sum(len(answer.token_ids) for answer in self.answers)
        prefill = sum(answer.stats.prefill_seconds for answer in self.answers)
        decode = sum(answer.stats.decode_seconds for answer in self.answers)
        return {
            "cache_n": cached,
            **_speed("prompt", prompt, prefill),
            **_speed("predicted", predicted, decode),
            "draft_n": self._offered,
            "draft_n_accepted": self._accepted,
        }

    def _own(self) -> dict[str, Any]:
        rounds = self._rounds
        decode = sum(answer.stats.decode_seconds for answer in self.answers)
        return {
            "system": self.answers[0].system if self.answers else None,
            "seeds": [answer.stats.seed for answer in self.answers],
            "rounds": len(rounds),
            "verification_length_histogram": histogram((r.w for r in rounds), self.drafts + 2),
            "router_expansions": sum(r.w > r.w0 for r in rounds),
            "round_ms": 1000 * decode / len(rounds) if rounds else None,
            "queue_ms": 1000 * self.queue_seconds,
        }


def _speed(name: str, tokens: int, seconds: float) -> dict[str, Any]:
    milliseconds = 1000 * seconds
    return {
        f"{name}_n": tokens,
        f"{name}_ms": milliseconds,
        f"{name}_per_token_ms": milliseconds / tokens if tokens else 0.0,
        f"{name}_per_second": tokens / seconds if seconds > 0 else 0.0,
    }
