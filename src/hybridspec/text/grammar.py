"""Answers that are JSON: a grammar says which tokens may come at every row of a block.

Rows are masked and drafts are left free: a draft that the grammar refuses cannot be the target's
token, so it is not accepted. The work is xgrammar's, which is imported when first asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hybridspec.checks import brief, expect
from hybridspec.core import SamplingParams
from hybridspec.errors import OptionError, RequestError, said_by
from hybridspec.extras import install
from hybridspec.text.schema import MOST_SPACES, schema_text
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools.definitions import Tools, check_tools
from hybridspec.text.tools.shapes import json_or_calls

ROWS, BITS = 16, 32  # of a block; tokens a word of a mask
CACHE = 256 * 2**20  # bytes of grammars kept for the next request with the same schema


@dataclass(frozen=True, eq=False, slots=True)
class Grammar:
    """What an answer must be. Made by `Engine.grammar`; serves any number of answers.

    Attributes:
        compiled: xgrammar's form of it, for the engine's tokens.
        after: id of the token after which it begins; None: at once.
        vocab_size: of the model that it is for.
        opening: text of it that stands in the prompt already.
    """

    compiled: Any
    after: int | None
    vocab_size: int
    opening: str = ""

    def walk(self, stop_ids: Collection[int]) -> Walk:
        """A new answer, which ends with one of the stop ids; they have no text."""
        return Walk(self, stop_ids)


class Grammars:
    """Makes the grammars of one model's tokens."""

    def __init__(
        self, tokenizer: Tokenizer | None, vocab_size: int, stop_ids: Sequence[int]
    ) -> None:
        """Read the tokens' bytes, which takes a second for 248,320.

        Raises:
            RequestError: there is no tokenizer, or xgrammar is not installed.
        """
        if tokenizer is None:
            raise RequestError("This engine has no tokenizer, so its answers have no grammar.")
        self._library, self._tokenizer, self._vocab_size = _library(), tokenizer, vocab_size
        tokens = [tokenizer.token_bytes(i) for i in range(vocab_size)]
        info = self._library.TokenizerInfo(
            tokens, vocab_size=vocab_size, stop_token_ids=list(stop_ids)
        )
        self._compiler = self._library.GrammarCompiler(info, cache_limit_bytes=CACHE)

    def make(
        self,
        schema: Mapping[str, Any] | None,
        after: str | None,
        tools: Tools | None = None,
        opening: str = "",
    ) -> Grammar:
        """The grammar of a schema. Arguments and errors as of `Engine.grammar`."""
        text = schema_text(schema)
        begin = None if after is None else self._token(after)
        try:
            if tools:
                calling = json_or_calls(text, self._form(tools), tools, after_thought=bool(after))
                compiled = self._compiler.compile_structural_tag(calling)
            else:
                compiled = self._compiler.compile_json_schema(text, max_whitespace_cnt=MOST_SPACES)
        except RuntimeError as error:
            raise OptionError("schema", f"cannot be used: {_reason(error)}.") from None
        if opening and not self._library.GrammarMatcher(compiled).accept_string(opening):
            said = f"is {brief(opening)}; expected what such an answer may begin with."
            raise OptionError("opening", said)
        return Grammar(compiled, begin, self._vocab_size, opening)

    def _form(self, tools: Tools) -> str:
        """The form in which they are called."""
        check_tools(tools)
        form = self._tokenizer.tool_form
        if form is None:
            said = "are given, but the chat template has no place for tools. Leave them out."
            raise OptionError("tools", said)
        return form

    def _token(self, after: object) -> int:
        found = self._tokenizer.token_id(after) if isinstance(after, str) else None
        if found is None:
            raise OptionError(
                "after", f"is {after!r}; expected the text of one token, such as </think>."
            )
        return found


def begin(
    grammar: Grammar | None,
    params: SamplingParams,
    tokenizer: Tokenizer | None,
    vocab_size: int,
    stop_ids: Collection[int],
) -> Walk | None:
    """A grammar along a new answer; None without one. Of the stop ids those end it without text.

    Raises:
        RequestError: it is none or another model's, or the answer would have no end.
    """
    if grammar is None:
        return None
    expect(isinstance(grammar, Grammar), "grammar", grammar, "what Engine.grammar gives, or None")
    if tokenizer is None or grammar.vocab_size != vocab_size:
        raise OptionError("grammar", "is of another model; make it with this engine.")
    if params.ignore_eos:
        raise OptionError(
            "ignore_eos", "is True, but an answer by a grammar ends with such a token."
        )
    ends = {token for token in stop_ids if not tokenizer.token_bytes(token)}
    if not ends:
        raise RequestError(
            "The checkpoint names no end token, with which an answer by a grammar ends; give the "
            "id of one in stop_token_ids."
        )
    return grammar.walk(ends)


class Walk:
    """A grammar along one answer: where the answer is in it, and what may come from there.

    Where the grammar has ended, or allows no token that there is, the stop ids alone may come.
    """

    def __init__(self, grammar: Grammar, stop_ids: Collection[int]) -> None:
        self._matcher = _library().GrammarMatcher(
            grammar.compiled, override_stop_tokens=sorted(stop_ids)
        )
        self._matcher.accept_string(grammar.opening)
        self._after, self._begun = grammar.after, grammar.after is None
        count = -(-grammar.vocab_size // BITS)
        self._words = torch.empty(ROWS, count, dtype=torch.int32)
        self._rows = self._words.numpy()  # the same memory, quicker to look into
        self._ends = np.zeros(count, np.uint32)
        for token in stop_ids:
            self._ends[token // BITS] |= 1 << token % BITS

    def masks(self, drafts: Sequence[int]) -> Tensor | None:
        """The tokens that may come at each row; row j follows the first j drafts.

        A draft that may not come ends the look: it is not accepted, so rows after it say nothing.

        Args:
            drafts: w - 1 ids, at most 15.

        Returns:
            [w, ceil(V / 32)] int32 as `runtime.adjust.masked` takes it, valid until the next call;
            None: anything may come.
        """
        words = self._words[: len(drafts) + 1].fill_(-1)
        begun, taken = self._begun, 0
        for row in range(len(words)):
            if begun:
                self._fill(row)
            if row == len(drafts):
                break
            if not begun:
                begun = drafts[row] == self._after
            elif self._take(row, drafts[row]):
                taken += 1
            else:
                break
        self._matcher.rollback(taken)
        return words if begun else None

    def keep(self, tokens: Sequence[int]) -> None:
        """Go on along tokens that the answer has got."""
        for token in tokens:
            if not self._begun:
                self._begun = token == self._after
            elif not self._matcher.is_terminated():
                self._matcher.accept_token(token)

    def _fill(self, row: int) -> None:
        if not self._matcher.is_terminated():
            self._matcher.fill_next_token_bitmask(self._words, row)
            if self._rows[row].any():
                return
        self._rows[row] = self._ends.view(np.int32)

    def _take(self, row: int, draft: int) -> bool:
        """Go on along a draft, if it may come at a row that is filled."""
        allowed = int(self._rows[row, draft // BITS]) >> draft % BITS & 1
        ended: bool = self._matcher.is_terminated()
        return bool(allowed) and not ended and bool(self._matcher.accept_token(draft))


def _library() -> Any:
    """xgrammar.

    Raises:
        RequestError: it is not installed.
    """
    try:
        import xgrammar
    except ImportError as error:
        raise RequestError(
            f"JSON answers need the package xgrammar, which cannot be imported: {said_by(error)}. "
            f"Install it with {install('grammar')}."
        ) from None
    return xgrammar


def _reason(error: RuntimeError) -> str:
    """What xgrammar says, without the place in its source that stands before it."""
    said = said_by(error)
    return said.split(": ", 1)[1] if said.startswith("[") and ": " in said else said
