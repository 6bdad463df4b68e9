"""Where the prompt comes from: the argument, a file, or standard input."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hybridspec.errors import RequestError

STDIN = "-"
MOST_BYTES = 16 * 2**20  # 64 a token at the models' longest context, 262,144


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt and how to put it to the model.

    Attributes:
        text: the prompt.
        chat: through the chat template or not; None: if there is one.
        thinking: let the model think first; None is no. Only in a chat.
        system_prompt: the text of a system message. Only in a chat.

    Raises:
        RequestError: options of a chat for a prompt that is to be continued as it is, or a system
            prompt that is empty or not UTF-8.
    """

    text: str
    chat: bool | None = None
    thinking: bool | None = None
    system_prompt: str | None = None

    def __post_init__(self) -> None:
        if self.chat is False:
            self._refuse_chat_options("--raw gives the prompt to the model as it is")
        if self.system_prompt is None:
            return
        # The dataclass is frozen for others; here it takes the bytes for what they are.
        text = argument_text(self.system_prompt, "--system-prompt")
        object.__setattr__(self, "system_prompt", text)
        if not text.strip():
            raise RequestError("--system-prompt is empty; give it some text or leave it out.")

    def is_chat(self, has_template: bool) -> bool:
        """Whether this goes through the chat template, for a checkpoint with or without one."""
        if self.chat is None and not has_template:
            self._refuse_chat_options("this checkpoint has no chat template")
            return False
        return self.chat is not False

    def messages(self) -> list[dict[str, str]]:
        """The conversation, for the chat template."""
        system = [] if self.system_prompt is None else [("system", self.system_prompt)]
        return [{"role": role, "content": said} for role, said in (*system, ("user", self.text))]

    def _refuse_chat_options(self, reason: str) -> None:
        given = {"--system-prompt": self.system_prompt, "--thinking": self.thinking or None}
        for flag, value in given.items():
            if value is not None:
                raise RequestError(f"{flag} is for a chat, but {reason}; leave out {flag}.")


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """The prompt's text. One line end at the end of a file or of standard input is dropped.

    Args:
        prompt: the argument; `-` is standard input, and so is nothing at all.
        file: of UTF-8 text; `-` is standard input.

    Raises:
        RequestError: two prompts or none, nothing in it, not UTF-8, too much, or a file that cannot
            be read.
    """
    if prompt is not None and file is not None:
        raise RequestError("There are two prompts, an argument and --file; expected one of them.")
    if file is not None and str(file) != STDIN:
        return _text(_read(file), f"The prompt file {file}", ending=True)
    if prompt is not None and prompt != STDIN:
        return _text(os.fsencode(prompt), "The prompt", ending=False)
    return _text(_standard_input(file is not None or prompt is not None), "Standard input", True)


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return _bounded(stream, f"The prompt file {file}")
    except OSError as error:
        raise RequestError(
            f"The prompt file {file} cannot be read: {error.strerror}. Expected a readable file of "
            "UTF-8 text."
        ) from None


def _standard_input(asked: bool) -> bytes:
    """All of it. A terminal is waited for only when asked for by name."""
    stream = sys.stdin
    wanted = stream is not None and (asked or not stream.isatty())
    data = _bounded(stream.buffer, "Standard input") if wanted else b""
    if not data and not asked:
        raise RequestError(
            "There is no prompt; give it as an argument, with --file PATH, or on standard input "
            "(-). See hybridspec generate --help."
        )
    return data


def _bounded(stream: BinaryIO, source: str) -> bytes:
    """All of a stream that ends, such as a pipe; a device like /dev/zero never does."""
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise RequestError(
            f"{source} holds more than {MOST_BYTES // 2**20} MiB, which fits no model's context; "
            "expected a text to answer."
        )
    return data


def _text(data: bytes, source: str, ending: bool) -> str:
    text = _decoded(data, source).removeprefix("\ufeff")
    if not text.strip():
        raise RequestError(f"{source} is empty; expected a prompt with some text.")
    return text.removesuffix("\n").removesuffix("\r") if ending else text


def argument_text(argument: str, source: str) -> str:
    """A text on the command line: its bytes as UTF-8, whatever Python took them for.

    Raises:
        RequestError: they are not.
    """
    return _decoded(os.fsencode(argument), source)


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{source} is not valid UTF-8 at byte offset {error.start} "
            f"(0x{data[error.start]:02x}); expected UTF-8 text, so convert it first."
        ) from None
