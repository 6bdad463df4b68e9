"""Token counts, as OpenAI's clients read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Usage:
    """Tokens of one response, counted as they come.

    Attributes:
        prompt: of the prompts, each once however many answers it has.
        completion: of all answers, thoughts included.
        cached: of the prompts, those whose state was kept from before.
        reasoning: of the answers, those of thoughts.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

    def document(self) -> dict[str, Any]:
        """OpenAI's `usage`."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }
