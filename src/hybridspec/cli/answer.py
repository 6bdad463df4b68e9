"""Follows an answer as it comes, and ends it in good order when the user interrupts."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from hybridspec.core import Generation
    from hybridspec.stream import Stream


def follow(stream: Stream, show: Callable[[str], None]) -> Generation:
    """The answer, whole or as far as it got before an interrupt; its reason is then `abort`.

    Args:
        stream: an answer not begun.
        show: is given all text of the answer, as it becomes certain.
    """
    shown = 0
    with Interrupts() as interrupts:
        try:
            for piece in stream:
                interrupts.wait = True
                show(piece.text)
                shown += len(piece.text)
                if interrupts.asked:
                    stream.close()
                    break
        except KeyboardInterrupt:
            # In the midst of a round, whose text is lost: what was held back before it may not be
            # what the answer goes on with, so it stays back.
            pass
        except Exception:
            if shown:
                show("\n")  # what is said about it begins a line
            raise
        answer = stream.result()
        show(answer.text[shown:])
    return answer


class Interrupts:
    """Ctrl-C while an answer comes.

    Attributes:
        wait: let the round under way end first. False until there is an answer to keep: a long
            prompt is given up at once.
        asked: Ctrl-C came. A second one does not wait.
    """

    def __init__(self) -> None:
        self.wait = self.asked = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.getsignal(signal.SIGINT)
        if self._before is signal.default_int_handler:  # else somebody wants it otherwise
            signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if signal.getsignal(signal.SIGINT) == self._interrupt:
            signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.asked or not self.wait:
            raise KeyboardInterrupt
        self.asked = True
