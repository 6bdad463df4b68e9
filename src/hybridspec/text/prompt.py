"""A prompt in any of its forms, as token ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hybridspec.checks import brief
from hybridspec.errors import RequestError
from hybridspec.text.messages import as_text
from hybridspec.text.tokenizer import Tokenizer
from hybridspec.text.tools.definitions import Tools, check_tools

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]
FORMS = "text, a list of token ids, or a list of messages"


def encode_prompt(
    prompt: Prompt,
    tokenizer: Tokenizer | None,
    vocab_size: int,
    *,
    chat: bool = False,
    enable_thinking: bool = False,
    tools: Tools | None = None,
) -> list[int]:
    """Token ids of text, of messages (or text with `chat`) through the template, or of ids.

    Raises:
        RequestError: nothing in it, another form, ids out of range, no tokenizer or template, or
            tools that cannot be used or without a chat.
    """
    if tools is not None:
        check_tools(tools)
    if isinstance(prompt, str):
        if not prompt.strip():
            raise RequestError("The prompt is empty; expected some text.")
        if not chat:
            _refuse_tools(tools)
            return _in_range(_needed(tokenizer).encode(prompt), vocab_size)
        prompt = [{"role": "user", "content": prompt}]
    if not isinstance(prompt, list | tuple):
        raise RequestError(f"The prompt is a {type(prompt).__name__}; expected {FORMS}.")
    if not prompt:
        raise RequestError("The prompt is empty; expected at least one token or message.")
    if all(isinstance(part, Mapping) for part in prompt):
        model = _needed(tokenizer)
        text = model.render_chat(as_text(prompt), enable_thinking=enable_thinking, tools=tools)
        ids = model.encode(text, add_special_tokens=False)
        return _in_range(ids, vocab_size)
    _refuse_tools(tools)
    return _ids(prompt, vocab_size, chat)


def _refuse_tools(tools: Tools | None) -> None:
    if tools:
        raise RequestError("Tools are for a chat; give messages, or text with chat=True.")


def _ids(prompt: Sequence[Any], vocab_size: int, chat: bool) -> list[int]:
    strange = next((p for p in prompt if not isinstance(p, int) or isinstance(p, bool)), None)
    if strange is not None:
        raise RequestError(f"The prompt holds {brief(strange)}; expected {FORMS}.")
    if chat:
        raise RequestError("Token ids cannot be wrapped as a chat; give text or messages.")
    return _in_range(prompt, vocab_size)


def _in_range(ids: Sequence[int], vocab_size: int) -> list[int]:
    wrong = next((i for i in ids if not 0 <= i < vocab_size), None)
    if wrong is not None:
        raise RequestError(f"The prompt holds token id {wrong}; expected 0 to {vocab_size - 1}.")
    return list(ids)


def _needed(tokenizer: Tokenizer | None) -> Tokenizer:
    if tokenizer is None:
        raise RequestError("This engine has no tokenizer; give the prompt as token ids.")
    return tokenizer
