"""What has been said so far, and what of it fits the context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Messages = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Turn:
    """A question, its answer, and what the model thought before it."""

    question: str
    answer: str
    thought: str = ""

    def messages(self) -> Messages:
        """As the chat template takes it; what becomes of the thought is the template's affair."""
        answer = {"role": "assistant", "content": self.answer}
        if self.thought:
            answer["reasoning_content"] = self.thought
        return [{"role": "user", "content": self.question}, answer]


class Conversation:
    """Turns after a system message, if any.

    Attributes:
        system: the system message's text, or None.
        turns: the oldest first.
    """

    def __init__(self, system: str | None = None) -> None:
        self.system = system
        self.turns: list[Turn] = []

    def messages(self, question: str, without: int = 0) -> Messages:
        """The conversation and a question, without some of the oldest turns."""
        system = [] if self.system is None else [{"role": "system", "content": self.system}]
        turns = [message for turn in self.turns[without:] for message in turn.messages()]
        return [*system, *turns, {"role": "user", "content": question}]

    def fit(
        self, question: str, encode: Callable[[Messages], list[int]], most: int
    ) -> tuple[list[int], int]:
        """The prompt for a question, in at most `most` tokens if leaving out old turns can do it.

        Returns its token ids, and how many of the oldest turns are not in it.
        """
        for without in range(len(self.turns) + 1):
            ids = encode(self.messages(question, without))
            if len(ids) <= most:
                break
        return ids, without

    def add(self, turn: Turn, without: int = 0) -> None:
        """Go on with a turn, and without some of the oldest ones."""
        self.turns = [*self.turns[without:], turn]
