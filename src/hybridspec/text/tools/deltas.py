"""What a parser of tool calls gives, and what its two forms share."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from hybridspec.text.stop import overlap
from hybridspec.text.tools.definitions import Tools

CALL, END = "<tool_call>", "</tool_call>"


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call, as OpenAI's streams have it.

    Attributes:
        index: of the call in the answer.
        arguments: a piece of the JSON object; all of a call's pieces joined are valid JSON.
        id, name: of the call, in its first piece only.
    """

    index: int
    arguments: str
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """What a piece of text adds: to the content, and to the calls, in order."""

    content: str = ""
    calls: tuple[CallDelta, ...] = ()


def new_call_id() -> str:
    """An id for a call, as long as OpenAI's."""
    return f"call_{secrets.token_hex(12)}"


class ToolParser(ABC):
    """Takes an answer's content, gives text and tool calls. However it is cut, the result is one.

    Text outside of calls is content, without the spaces and line ends beside a call. What may be
    the beginning of a call waits for the next piece; what turns out to be none is content.

    Attributes:
        calls: how many have begun.
        unfinished: whether the answer ended within a call.
    """

    def __init__(self, tools: Tools = (), new_id: Callable[[], str] = new_call_id) -> None:
        """Take the request's tools, in OpenAI's form and checked, and what makes ids."""
        self._new_id = new_id
        self._tools = {tool["function"]["name"]: tool for tool in tools}
        self._text = ""
        self._ended = False
        self._step: Callable[[], bool] = self._outside
        self._after_call = False  # nothing but spaces since a call
        self._spaces = ""  # before a call that may be none
        self._content: list[str] = []
        self._deltas: list[CallDelta] = []
        self.calls = 0
        self.unfinished = False

    def push(self, text: str) -> Delta:
        """What is now certain. It may lag behind the text."""
        self._text += text
        while self._step():
            pass
        delta = Delta("".join(self._content), tuple(self._deltas))
        self._content, self._deltas = [], []
        return delta

    def finish(self) -> Delta:
        """What was held back; the text is over."""
        self._ended = True
        return self.push("")

    @abstractmethod
    def _inside(self) -> bool:
        """A step at `<tool_call>`, which the text begins with. False, as of any step, waits."""

    def _outside(self) -> bool:
        if self._after_call:
            self._text = self._text.lstrip()
        at = self._text.find(CALL)
        if at < 0:
            held = 0 if self._ended else overlap(self._text, CALL)
            certain = self._text[: len(self._text) - held]
            self._say(certain if self._ended else certain.rstrip())
            return False
        before = self._text[:at].rstrip()
        self._spaces = self._text[len(before) : at]
        self._say(before)
        self._text = self._text.removeprefix(self._spaces)
        return self._go(self._inside)

    def _no_call(self) -> bool:
        """What seemed to open a call is content."""
        self._content.append(self._spaces)
        self._say(CALL)
        return self._go(self._outside)

    def _say(self, content: str) -> None:
        """Text moves to the content."""
        self._text = self._text.removeprefix(content)
        self._content.append(content)
        self._after_call = self._after_call and not content

    def _begin(self, name: str, arguments: str) -> None:
        """A call, with what is known of its arguments."""
        self._deltas.append(CallDelta(self.calls, arguments, self._new_id(), name))
        self.calls += 1
        self._spaces = ""

    def _add(self, arguments: str) -> None:
        """More of the call's arguments."""
        if arguments:
            self._deltas.append(CallDelta(self.calls - 1, arguments))

    def _end(self) -> bool:
        """A call is over; its last tag has been taken from the text."""
        self._after_call = True
        return self._go(self._outside)

    def _go(self, step: Callable[[], bool]) -> bool:
        self._step = step
        return True
