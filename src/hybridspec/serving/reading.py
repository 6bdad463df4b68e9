"""An answer's text as it is shown: thought, content and tool calls apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hybridspec.text.reasoning import ReasoningSplitter, Split, Thought
from hybridspec.text.tools import CALL, CallDelta, Delta, ToolParser


@dataclass(frozen=True, slots=True)
class Said:
    """What a piece of text adds to a message. Any part may be empty."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[CallDelta, ...] = ()

    def __add__(self, other: Said) -> Said:
        """Both, one after the other."""
        content, reasoning = self.content + other.content, self.reasoning + other.reasoning
        return Said(content, reasoning, self.calls + other.calls)

    def document(self) -> dict[str, Any]:
        """OpenAI's `delta`, with thoughts under both names that clients read."""
        document: dict[str, Any] = {}
        if self.reasoning:
            document |= {"reasoning_content": self.reasoning, "reasoning": self.reasoning}
        if self.content:
            document["content"] = self.content
        if self.calls:
            document["tool_calls"] = [_call(delta) for delta in self.calls]
        return document


class Reader:
    """Reads one answer, piece by piece."""

    def __init__(
        self, thought: Thought, tools: ToolParser | None, opening: str = "", *, bound: bool = False
    ) -> None:
        """Begin an answer.

        Args:
            thought: whether it begins inside a thought.
            tools: finds the calls; None where there are no tools.
            opening: text that the answer was made to begin with; part of the content.
            bound: whether an answer that does not begin with a call has none.
        """
        self._splitter, self._tools = ReasoningSplitter(thought), tools
        self._opening, self._bound = opening, bound
        self.called = False

    def push(self, text: str) -> Said:
        """What is now certain."""
        return self._said(self._splitter.push(text))

    def finish(self) -> Said:
        """What was held back."""
        first = self._said(self._splitter.finish())
        if self._tools is None:
            return first
        last = self._tools.finish()
        return first + Said(last.content, calls=last.calls)

    def _said(self, split: Split) -> Said:
        content, self._opening = self._opening + split.content, ""
        if self._bound and content:  # in JSON the mark of a call is text
            self._tools = self._tools if content.startswith(CALL[0]) else None
            self._bound = False
        found = Delta(content) if self._tools is None else self._tools.push(content)
        self.called = self.called or bool(found.calls)
        return Said(found.content, split.reasoning, found.calls)


@dataclass(slots=True)
class Message:
    """A whole message, put together from its pieces."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)

    def add(self, said: Said) -> None:
        """One piece more."""
        self.content += said.content
        self.reasoning += said.reasoning
        for delta in said.calls:
            if delta.id is not None:
                function = {"name": delta.name, "arguments": ""}
                self.calls.append({"id": delta.id, "type": "function", "function": function})
            self.calls[-1]["function"]["arguments"] += delta.arguments

    def document(self) -> dict[str, Any]:
        """OpenAI's `message`."""
        none = not self.content and bool(self.calls)
        document: dict[str, Any] = {
            "role": "assistant",
            "content": None if none else self.content,
            "refusal": None,
        }
        if self.reasoning:
            document |= {"reasoning_content": self.reasoning, "reasoning": self.reasoning}
        if self.calls:
            document["tool_calls"] = self.calls
        return document


def _call(delta: CallDelta) -> dict[str, Any]:
    function: dict[str, Any] = {"arguments": delta.arguments}
    if delta.id is None:
        return {"index": delta.index, "function": function}
    function = {"name": delta.name, **function}
    return {"index": delta.index, "id": delta.id, "type": "function", "function": function}
