"""Thoughts apart from the answer, in text and tokens that come in pieces of any size.

A thought stands at the beginning of an answer and ends at the first `</think>`. Who opens it
differs: a prompt of Qwen3.5/3.6 ends with `<think>` when thinking is on, and with a whole empty
thought when it is off; models of other templates write `<think>` themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from hybridspec.text.stop import overlap

OPEN, CLOSE = "<think>", "</think>"
BLANK = " \t\r\n"  # may stand before an opening

# Where an answer begins: inside a thought, after one, or where the model may open one itself.
Thought = Literal["open", "closed", "unknown"]


def thought_after(prompt_end: str) -> Thought:
    """Where the answer to a prompt begins, told by the prompt's last characters."""
    end = prompt_end.rstrip()
    if end.endswith(CLOSE):
        return "closed"
    return "open" if end.endswith(OPEN) else "unknown"


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of an answer: what is thought and what is said. Either may be empty."""

    reasoning: str = ""
    content: str = ""


class ReasoningSplitter:
    """Takes an answer's text, gives thought and content without the markers.

    Line ends beside a marker belong to it: those after `<think>` and those around `</think>`. What
    may be part of a marker waits for the next piece, with the line ends before it. A thought that
    never ends is all reasoning. However the text is cut, the parts joined are the same.
    """

    def __init__(self, thought: Thought) -> None:
        """Take where the answer begins, as `thought_after` tells it."""
        self._place: Thought = thought
        self._text = ""
        self._after_marker = thought == "open"

    def push(self, text: str) -> Split:
        """What is now certain. It may lag behind the text."""
        self._text += text
        return self._split(ended=False)

    def finish(self) -> Split:
        """What was held back; the text is over."""
        return self._split(ended=True)

    def _split(self, ended: bool) -> Split:
        if self._place == "unknown":
            self._begin(ended)
        reasoning = self._thought(ended) if self._place == "open" else ""
        content = self._take(len(self._text)) if self._place == "closed" else ""
        return Split(reasoning, content)

    def _begin(self, ended: bool) -> None:
        said = self._text.lstrip(BLANK)
        if said.startswith(OPEN):
            self._pass_marker("open", said.removeprefix(OPEN))
        elif ended or not OPEN.startswith(said):
            self._place = "closed"

    def _thought(self, ended: bool) -> str:
        at = self._text.find(CLOSE)
        if at >= 0:
            reasoning = self._take(at).rstrip("\n")
            self._pass_marker("closed", self._text.removeprefix(CLOSE))
            return reasoning
        if ended:
            return self._take(len(self._text))
        certain = self._text[: len(self._text) - overlap(self._text, CLOSE)]
        return self._take(len(certain.rstrip("\n")))

    def _pass_marker(self, place: Thought, rest: str) -> None:
        self._place, self._text, self._after_marker = place, rest, True

    def _take(self, count: int) -> str:
        """The first characters of the text, without line ends that follow a marker."""
        taken, self._text = self._text[:count], self._text[count:]
        if self._after_marker:
            taken = taken.lstrip("\n")
            self._after_marker = not taken
        return taken


class ReasoningCounter:
    """Counts the tokens of an answer's thought, by ids: exact while text lags behind.

    A thought's tokens are all up to the one that completes `</think>`, that one included; without a
    `</think>`, all. The count never exceeds the tokens given.

    Attributes:
        count: tokens of the thought so far.
    """

    def __init__(self, token_bytes: Callable[[int], bytes], thought: Thought) -> None:
        """Take the bytes of a token (`Tokenizer.token_bytes`), and where the answer begins."""
        self._token_bytes, self._place = token_bytes, thought
        self._seen = b""  # of an opening that is undecided, or the last bytes of a thought
        self._undecided = 0
        self.count = 0

    def push(self, ids: Iterable[int]) -> None:
        """Take the next tokens."""
        for token in ids:
            if self._place == "closed":
                return
            self._seen += self._token_bytes(token)
            if self._place == "unknown":
                self._begin()
            else:
                self._thought()

    def _begin(self) -> None:
        self._undecided += 1
        said = self._seen.lstrip(BLANK.encode())
        if said.startswith(OPEN.encode()):
            self._place, self._seen = "open", said.removeprefix(OPEN.encode())
            self.count = self._undecided - 1
            self._thought()
        elif not OPEN.encode().startswith(said):
            self._place = "closed"

    def _thought(self) -> None:
        self.count += 1
        if CLOSE.encode() in self._seen:
            self._place = "closed"
        self._seen = self._seen[-len(CLOSE) :]
