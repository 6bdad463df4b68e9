"""Answers of at most one call: `parallel_tool_calls` false."""

from __future__ import annotations

from dataclasses import replace

from hybridspec.engine import Engine
from hybridspec.serving.reading import Reader, Said
from hybridspec.serving.turns import Ask, Progress
from hybridspec.text.stop import OutputStream
from hybridspec.text.tools import CALL


class OneCall:
    """Reads an answer to the token that shows its second call, in whatever block that comes.

    Tokens are read one by one, with the text that plain decoding gives them. So where the answer
    ends, and what it says before that, does not depend on the rounds.

    Attributes:
        over: whether that token has come.
    """

    def __init__(self, engine: Engine, ask: Ask, reader: Reader) -> None:
        """Begin an answer to `ask`, whose text `reader` takes apart."""
        tokenizer, most = engine.tokenizer, engine.max_context - len(ask.ids)
        assert tokenizer is not None
        eos, most = engine.defaults.eos_token_ids, min(ask.params.max_tokens, most)
        self._output = OutputStream(tokenizer.detokenizer(), ask.params, eos, most)
        self._reader = reader
        self.over = False

    def push(self, progress: Progress) -> tuple[Said, Progress]:
        """What is now certain, and as much of the progress as belongs to the answer."""
        piece, said = progress.piece, Said()
        for count, token in enumerate(piece.token_ids, 1):
            said += self._reader.push(self._output.push((token,)).text)
            if any(delta.index > 0 for delta in said.calls):
                self.over = True
                first = tuple(delta for delta in said.calls if delta.index == 0)
                ids, logprobs = piece.token_ids[:count], piece.logprobs[:count]
                cut = replace(piece, token_ids=ids, logprobs=logprobs)
                return replace(said, calls=first), replace(progress, piece=cut)
        return said, progress

    def finish(self, *, limited: bool) -> Said:
        """What was held back, but for a second call.

        limited: whether a limit ended the answer, perhaps within that call's beginning.
        """
        called, said = self._reader.called, self._reader.finish()
        text = said.content.lstrip()
        begun = called and limited and text.startswith(CALL[: len(text)])
        first = tuple(delta for delta in said.calls if delta.index == 0)
        return replace(said, content="" if begun else said.content, calls=first)
