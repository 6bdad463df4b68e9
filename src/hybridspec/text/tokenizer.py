"""A checkpoint's tokenizer: `tokenizer.json` through `tokenizers`, and its chat template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import tokenizers
from tokenizers import decoders

from hybridspec.errors import CheckpointError, HybridSpecError, RequestError, said_by
from hybridspec.text.chat import ChatTemplate
from hybridspec.text.detokenize import Detokenizer, bytes_of_token
from hybridspec.text.files import (
    chat_template,
    is_panic,
    read_backend,
    read_config,
    special_tokens,
)
from hybridspec.text.messages import Message

LONG = 4096  # characters, which take a millisecond


class Tokenizer:
    """Text to ids and back, for byte-level BPE as the Qwen family has it.

    Attributes:
        eos_token_id: the id of `eos_token` in `tokenizer_config.json`; None where it names none.
        vocab_size: the number of tokens, added ones included; the model may have more rows.
        specials, template: as they were given; no specials are an empty mapping.
    """

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        specials: Mapping[str, Any] | None = None,
        template: str | None = None,
    ) -> None:
        """Wrap `backend`; `from_dir` reads all three from a checkpoint.

        Args:
            backend: a byte-level BPE.
            specials: special tokens by their names in `tokenizer_config.json`, as strings.
            template: a Jinja chat template.

        Raises:
            CheckpointError: not byte-level BPE, an unknown eos token, or a broken chat template.
        """
        if not isinstance(backend.decoder, decoders.ByteLevel):
            raise CheckpointError(
                f"The tokenizer decodes with {type(backend.decoder).__name__}; expected ByteLevel, "
                "as every Qwen3.5/3.6 tokenizer has. Use the tokenizer files of the target."
            )
        self._backend = backend
        self._backend.no_truncation()
        self._backend.no_padding()
        specials = specials or {}
        self.specials, self.template = specials, template
        self._mark_special(specials)
        added = backend.get_added_tokens_decoder()
        self._special = {token.content for token in added.values() if token.special}
        self._bytes: dict[int, bytes] = {}
        self.eos_token_id = self._id_of(specials.get("eos_token"))
        self.vocab_size = backend.get_vocab_size(with_added_tokens=True)
        self._chat = None if template is None else ChatTemplate(template, specials)

    @classmethod
    def from_dir(cls, path: Path | str) -> Self:
        """Read the tokenizer files of a checkpoint directory.

        `tokenizer.json` must be there; `tokenizer_config.json` and `chat_template.jinja` may be.
        The latter wins over a template in the former.

        Raises:
            CheckpointError: a file is missing or damaged, or the tokenizer is of another kind.
        """
        directory = Path(path)
        config = read_config(directory / "tokenizer_config.json")
        backend = read_backend(directory / "tokenizer.json")
        return cls(backend, special_tokens(config), chat_template(directory, config))

    @property
    def has_chat_template(self) -> bool:
        """Whether `render_chat` can be used."""
        return self._chat is not None

    @property
    def tool_form(self) -> str | None:
        """The form in which the chat template asks for tool calls, as of `text.tools.PARSERS`; None
        where it has no place for tools, or there is none."""
        return None if self._chat is None else self._chat.tool_form

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of `text`. Special tokens written in it are recognised.

        Args:
            text: any Unicode text.
            add_special_tokens: let the tokenizer's post-processor add what it adds (Qwen's adds
                nothing). False for a rendered chat, which is complete.

        Raises:
            RequestError: the text holds a lone surrogate, which is no character, or is too much for
                the tokenizer's search, as a run of millions of spaces is.
            CheckpointError: the tokenizer is damaged in a way that shows only now.
        """
        try:
            text.encode()
            if len(text) < LONG:
                return self._backend.encode(text, add_special_tokens=add_special_tokens).ids
            # A batch of one, since only batches let other threads go on meanwhile.
            (made,) = self._backend.encode_batch([text], add_special_tokens=add_special_tokens)
            return made.ids
        except UnicodeEncodeError as error:
            raise RequestError(
                f"The text is not valid Unicode at character {error.start}: {error.reason}. "
                "Give the prompt as UTF-8 text."
            ) from error
        except BaseException as error:
            if not is_panic(error):
                raise
            raise self._failure(error, add_special_tokens) from None

    def _failure(self, panic: BaseException, special: bool) -> HybridSpecError:
        """What to say of a text that the library gave up on: is it the text or the tokenizer?"""
        said = f"The tokenizer fails on this text: {said_by(panic)}."
        try:
            self._backend.encode("a", add_special_tokens=special)
        except BaseException as error:
            if not is_panic(error):
                raise
            return CheckpointError(f"{said} Download the checkpoint's tokenizer files again.")
        return RequestError(
            f"{said} It takes others, so give a shorter one, or one without a run of so many "
            "spaces or other like characters."
        )

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`, all at once. Ids without a token have no text."""
        return self._backend.decode(ids, skip_special_tokens=skip_special_tokens)

    def detokenizer(self) -> Detokenizer:
        """A fresh reader, for one stream of ids. Special tokens have no text."""
        return Detokenizer(self.token_bytes)

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that an id stands for: empty for special tokens and for ids without a token."""
        known = self._bytes.get(token_id)
        if known is None:
            token = self._backend.id_to_token(token_id)
            shown = token is not None and token not in self._special
            known = self._bytes[token_id] = bytes_of_token(token) if token and shown else b""
        return known

    def token_id(self, token: str) -> int | None:
        """The id of a token as the tokenizer writes it, such as `</think>`; None without one."""
        return self._backend.token_to_id(token)

    def render_chat(self, messages: Sequence[Message], **settings: Any) -> str:
        """The prompt for a conversation, by the checkpoint's template.

        Args:
            messages: the conversation.
            settings: those of `ChatTemplate.render`.

        Raises:
            RequestError: the checkpoint has no chat template, or it refuses the messages.
        """
        if self._chat is None:
            raise RequestError(
                "This checkpoint has no chat template, so it cannot take a conversation. "
                "Give the prompt as plain text (--raw)."
            )
        return self._chat.render(messages, **settings)

    def opening_id(self) -> int | None:
        """The special token with which the chat template opens a message; None where it has no
        template, or one that opens them otherwise."""
        if self._chat is None:
            return None
        said: list[Message] = [{"role": "user", "content": "Hello"}]
        try:
            closed, opened = (
                self._chat.render(said, add_generation_prompt=more) for more in (False, True)
            )
        except RequestError:  # a template for other conversations
            return None
        if not opened.startswith(closed):
            return None
        first = self.encode(opened[len(closed) :], add_special_tokens=False)[:1]
        special = [i for i in first if self._backend.id_to_token(i) in self._special]
        return special[0] if special else None

    def _mark_special(self, specials: Mapping[str, Any]) -> None:
        """Hide what the configuration names as special, whatever `tokenizer.json` says of it."""
        names = _names(specials.values())
        known = [name for name in names if self._backend.token_to_id(name) is not None]
        self._backend.add_special_tokens(known)

    def _id_of(self, token: str | None) -> int | None:
        if token is None:
            return None
        found = self._backend.token_to_id(token)
        if found is None:
            raise CheckpointError(
                f"tokenizer_config.json names {token!r} as the eos token, but tokenizer.json does "
                "not hold it. Download both again from the same checkpoint."
            )
        return found


def _names(values: Iterable[Any]) -> list[str]:
    lists = (value if isinstance(value, list) else [value] for value in values)
    return [name for names in lists for name in names]
